"""Every architecture that can be read: a file of its own, and a line here."""

from __future__ import annotations

from attnflow.trained import albert, bert, gpt2, llama
from attnflow.trained.architecture import Layout

#: By `model_type` of config.json.
CONFIGURED: dict[str, Layout] = {
    "bert": bert.LAYOUT,
    "albert": albert.LAYOUT,
    "gpt2": gpt2.LAYOUT,
}
#: By `general.architecture` of a GGUF file's metadata.
DESCRIBED: dict[str, Layout] = {
    "llama": llama.LAYOUT,
}
LAYOUTS = CONFIGURED | DESCRIBED
