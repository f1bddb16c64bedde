"""Top-level `theory` and `models` are imported as kvdiv.theory and kvdiv.models, through the links in kvdiv/."""

collect_ignore = ["theory", "models"]
