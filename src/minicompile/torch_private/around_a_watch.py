"""Private names of torch for what an `explore` tells beside its captures; they join `names.NAMES` on import.

They stand apart from it because a recorded compile, which none of them takes part in, would hang on them there.
"""

from minicompile.torch_private.names import NAMES, PrivateName, lookup, owner

__all__ = ["lookup", "owner"]

AROUND_A_WATCH = {
    "codes": PrivateName("torch._dynamo.convert_frame:input_codes", "which functions were compiled before"),
    "cache_entries": PrivateName(
        "torch._C._dynamo.eval_frame:_debug_get_cache_entry_list", "what was compiled of a function"
    ),
    "compile_fx_aot": PrivateName("torch._inductor.compile_fx:compile_fx_aot", "which compiles go by AOTInductor"),
    "output": PrivateName("torch._inductor.output_code:OutputCode", "whether Inductor compiled it"),
}
NAMES.update(AROUND_A_WATCH)
