"""Real models; the only part of kvdiv that imports torch and transformers (the extra `models`).

In reading order: `checkpoint`, `prompts`, `memory`; `attention`, `prefill`, `eviction`, `actions`; `suffix`, `decode`; `measure`;
`oracle`, `controls`.
"""
