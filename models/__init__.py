"""Real models, in reading order: `checkpoint`, `prompts`, `prefill`, `eviction`, `actions`, `suffix`, `decode`, `oracle`, `controls`.

The only part of kvdiv that imports torch and transformers (the extra `models`).
"""
