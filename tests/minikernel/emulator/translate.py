"""From preprocessed CUDA C++ to C++: `asm` becomes calls of ptx.h, `__shared__` variables lie in the block's memory."""

import re
from pathlib import Path

HERE = Path(__file__).parent
KNOWN = set(re.findall(r"^inline void (\w+)\(", (HERE / "ptx.h").read_text(), re.M))
LOADS_AND_STORES = [  # macros of ptx.h define these for every type
    f"{name}{vector}_{kind}"
    for name in ("ld_global", "ld_shared", "st_global", "st_shared", "st_async")
    for vector in ("", "_v2", "_v4")
    for kind in ("b16", "u16", "b32", "u32", "s32", "f32", "b64", "u64", "s64")
]
KNOWN |= {*LOADS_AND_STORES, *re.findall(r"setp_\w\w_\w+", "")}
KNOWN |= {
    f"setp_{c}_{t}" for c in ("eq", "ne", "lt", "le", "gt", "ge") for t in ("u32", "b32", "s32", "u64", "s64", "f32")
}
C_TYPES = {"r": "uint32_t", "l": "uint64_t", "h": "uint16_t", "f": "float", "d": "double"}
SPECIAL = {
    "cluster_ctarank": "emulated::self->rank",
    "cluster_nctarank": "emulated::grid.cluster_size",
    "clusterid.x": "(emulated::self->block.x / emulated::grid.cluster.x)",
    "nclusterid.x": "(emulated::grid.blocks.x / emulated::grid.cluster.x)",
    "cluster_ctaid.x": "(emulated::self->block.x % emulated::grid.cluster.x)",
    "cluster_nctaid.x": "emulated::grid.cluster.x",
    "laneid": "emulated::self->lane",
    "warpid": "(emulated::self->number / 32)",
    "smid": "(emulated::ptx::block_number() % 132)",
    "nsmid": "132",
    "clock": "uint32_t(emulated::nanoseconds())",
    "clock64": "emulated::nanoseconds()",
    "globaltimer": "emulated::nanoseconds()",
    "dynamic_smem_size": "emulated::grid.dynamic_bytes",
    "lanemask_lt": "((1u << emulated::self->lane) - 1)",
    "lanemask_le": "((2u << emulated::self->lane) - 1)",
    "lanemask_eq": "(1u << emulated::self->lane)",
    **{f"tid.{axis}": f"emulated::self->index.{axis}" for axis in "xyz"},
    **{f"ctaid.{axis}": f"emulated::self->block.{axis}" for axis in "xyz"},
    **{f"ntid.{axis}": f"emulated::grid.threads.{axis}" for axis in "xyz"},
    **{f"nctaid.{axis}": f"emulated::grid.blocks.{axis}" for axis in "xyz"},
}
# What an instruction may say that makes no difference to one thread of a CPU.
WITHOUT_EFFECT = re.compile(
    r"\.(volatile|weak|relaxed|acquire|release|acq_rel|aligned|cta|cluster|gpu|sys|nc|L1::no_allocate|L1::evict_\w+|"
    r"L2::evict_\w+|L2::\d+B|L2::cache_hint|ca|cg|cs|lu|cv|wb|wt|rn|noftz|fractional|contiguous)(?![\w:])"
)


class CannotTranslate(Exception):
    """CUDA C++ that the emulator does not know; the sentence says which."""


def translate(source: str) -> str:
    """C++ that does what preprocessed CUDA C++ does.

    Raises:
        CannotTranslate: an instruction of PTX, or a way to declare shared memory, is unknown.
    """
    return _shared(_assembly(source))


def function_name(opcode: str) -> str:
    """The function of ptx.h for an instruction, e.g. `ld_global_v4_u32` for `ld.volatile.global.v4.u32`."""
    name = opcode
    if name.startswith("fence") or name.startswith("membar"):
        return "fence"
    if name.startswith("createpolicy"):
        return "createpolicy"
    hinted = "L2::cache_hint" in name
    name = (
        WITHOUT_EFFECT.sub("", name)
        if not name.startswith("barrier.cluster")
        else re.sub(r"\.(aligned|release|acquire|relaxed)", "", name)
    )
    if name.startswith(("mma", "ldmatrix", "movmatrix", "shfl")):
        name = name.replace(".sync", "")
    name = (
        name.replace("shared::cta", "shared").replace("shared::cluster", "shared").replace(".to.shared", ".to_shared")
    )
    name = re.sub(r"^(barrier|bar)\.(cta\.)?(sync|arrive)", r"bar.\3", name)
    name = re.sub(r"^(cvta)\.to\.", r"\1.to_", name)
    if name.startswith("st.async"):
        name = name.replace(".shared", "").replace(".mbarrier::complete_tx::bytes", "")
    if name.startswith("cp.async.bulk"):
        multicast = ".multicast::cluster" in name
        name = name.replace(".mbarrier::complete_tx::bytes", ".mbarrier").replace(".multicast::cluster", "")
        name += ".multicast" * multicast + ".hinted" * hinted
    elif name.startswith("cp.async.shared"):
        name = name.replace("cp.async", "cp.async.hinted") if hinted else name
    if name == "selp.u32" or name == "selp.s32":
        name = "selp.b32"
    if name in ("add.s32", "sub.s32", "add.s64"):
        name = name.replace(".s", ".u")
    if re.fullmatch(r"mov\.[us](32|64)", name):
        name = "mov.b" + name[-2:]
    if re.fullmatch(r"mov\.(b16|u16|pred)", name):
        name = "mov"
    return re.sub(r"[.:]+", "_", name)


def _assembly(source: str) -> str:
    made, end = [], 0
    for start in re.finditer(r"\b(?:asm|__asm__)\b\s*(?:volatile|__volatile__)?\s*\(", source):
        if start.start() < end:
            continue
        made.append(source[end : start.start()])
        fields, end = _fields(source, start.end())
        made.append(_statement(*fields))
    return "".join(made) + source[end:]


def _fields(source: str, at: int) -> tuple[tuple[str, list, list], int]:
    """Text, outputs and inputs of an asm statement that opens before `at`, and where it ends."""
    parts: list[list[str]] = [[""]]
    depth = 0
    while True:
        c = source[at]
        if c == '"':
            end = re.compile(r'"(?:[^"\\]|\\.)*"').match(source, at).end()
            parts[-1][-1] += source[at:end]
            at = end
            continue
        if c in "([{":
            depth += 1
        elif c in ")]}":
            if depth == 0:
                break
            depth -= 1
        if depth == 0 and c == ":":
            parts.append([""])
        elif depth == 0 and c == ",":
            parts[-1].append("")
        else:
            parts[-1][-1] += c
        at += 1
    text = (
        "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', parts[0][0]))
        .replace("\\n", "\n")
        .replace("\\t", "\t")
        .replace('\\"', '"')
    )
    operands = []
    for part in [*parts[1:3], [], []][:2]:
        found = [re.match(r'\s*(?:\[(\w+)\])?\s*"([^"]+)"\s*\((.*)\)\s*$', each, re.S) for each in part if each.strip()]
        operands.append([(each[1], each[2], each[3]) for each in found])
    return (text, operands[0], operands[1]), at + 1


def _statement(text: str, outputs: list, inputs: list) -> str:
    """A C++ statement, without its semicolon, for an asm statement."""
    lines, names, after = [], {}, []
    for number, (name, constraint, expression) in enumerate([*outputs, *inputs]):
        letter = constraint.strip("=+&")
        variable = f"ptx_{number}"
        if letter in ("n", "i"):
            lines.append(f"const Bits {variable} = Bits({expression});")
        elif constraint.startswith("="):
            lines.append(f"Bits {variable} = 0;")
        else:
            value = f"(uint64_t)({expression})" if letter == "l" else f"static_cast<{C_TYPES[letter]}>({expression})"
            lines.append(f"Bits {variable} = emulated::bits_of({value});")
        if number < len(outputs):
            kind = C_TYPES[letter]
            after.append(f"({expression}) = emulated::from_bits<{kind}>({variable});")
        names[str(number)] = variable
        if name:
            names[f"[{name}]"] = variable
    declared: set[str] = set()
    body = []
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    for instruction in _instructions(text):
        if instruction.startswith(".reg"):
            for register in re.split(r"[,\s]+", instruction.split(None, 2)[2].strip()):
                declared.add(register)
                lines.append(f"Bits reg_{register.replace('%', '')} = 0;")
            continue
        if instruction.endswith(":"):
            body.append(f"label_{instruction[:-1].strip()}: ;")
            continue
        body.append(_instruction(instruction, names, declared))
    lines.append("Bits sink = 0; (void)sink;")
    # a lambda keeps the names and labels of each statement apart
    return "[&]() __attribute__((always_inline)) { " + " ".join([*lines, *body, *after]) + " }()"


def _instructions(text: str):
    """Instructions, labels and declarations, in order; braces that only make a scope are left out."""
    for piece in text.split(";"):
        piece = piece.strip()
        while piece:
            if piece[0] in "{}":
                piece = piece[1:].strip()
                continue
            label = re.match(r"[\w$]+:(?!:)", piece)
            if not label:
                break
            yield label[0]
            piece = piece[label.end() :].strip()
        if piece:
            yield piece


def _instruction(text: str, names: dict[str, str], declared: set[str]) -> str:
    condition = ""
    predicate = re.match(r"@(!?)(\S+)\s+", text)
    if predicate:
        condition = f"if ({predicate[1]}{_operand(predicate[2], names, declared)}) "
        text = text[predicate.end() :]
    opcode, _, rest = text.partition(" ") if " " in text else (text, "", "")
    if "\n" in opcode or "\t" in opcode:
        opcode, rest = re.split(r"\s+", text, maxsplit=1)
    if opcode.startswith("bra"):
        return f"{condition}goto label_{rest.strip()};"
    name = function_name(opcode)
    if name in ("mov_b32", "mov_b64") and "{" in rest and not rest.strip().startswith("{"):
        name = name.replace("mov", "mov_pack")
    if name not in KNOWN:
        raise CannotTranslate(f"the emulator does not know the PTX instruction {opcode}; write it in ptx.h as {name}.")
    flat = re.sub(r"[{}\[\]]", " ", rest.replace("|", ","))
    operands = [_operand(each.strip(), names, declared) for each in flat.split(",") if each.strip()]
    return f"{condition}emulated::ptx::{name}({', '.join(operands)});"


def _operand(text: str, names: dict[str, str], declared: set[str]) -> str:
    if text == "_":
        return "sink"
    if text.startswith("!"):
        return f"Bits(!{_operand(text[1:], names, declared)})"
    offset = re.fullmatch(r"(.+?)\s*\+\s*(\w+|%\w+)", text)
    if offset:
        return f"({_operand(offset[1], names, declared)} + {_operand(offset[2], names, declared)})"
    if text in declared:
        return "reg_" + text.replace("%", "")
    named = re.fullmatch(r"%(\d+|\[\w+\])", text)
    if named:
        return names[named[1]]
    special = re.fullmatch(r"%%?([\w.]+)", text)
    if special and special[1] in SPECIAL:
        return f"Bits({SPECIAL[special[1]]})"
    if re.fullmatch(r"0[fF][0-9a-fA-F]{8}", text):
        return f"Bits(0x{text[2:]})"
    if re.fullmatch(r"-?(0x[0-9a-fA-F]+|\d+)[uU]?", text):
        return f"Bits({text})"
    if re.fullmatch(r"-?\d+\.\d*", text):
        return f"emulated::bits_of(float({text}))"
    raise CannotTranslate(f"the emulator does not know the PTX operand {text}.")


SHARED = re.compile(
    r"(?P<extern>\bextern\s+)?(?:(?:static|volatile|alignas\([^)]*\)|__attribute__\(\(aligned\([^)]*\)\)\))\s+)*__shared__\s+"
    r"(?:(?P<alignment>alignas\((?:[^()]|\([^()]*\))*\))\s*)?(?P<declaration>[^;]+);"
)


def _shared(source: str) -> str:
    """Declarations of shared variables, as references into the memory of the block that runs."""

    def replaced(found: re.Match) -> str:
        declaration = " ".join(found["declaration"].split())
        depth = source.count("{", 0, found.start()) - source.count("}", 0, found.start())
        first, *others = _split(declaration)
        name = re.search(r"(\w+)\s*((?:\[[^]]*\]\s*)*)$", first)
        kind = first[: name.start()].strip()
        if found["extern"]:
            if depth:
                return f"{kind}* const {name[1]} = static_cast<{kind}*>(emulated::dynamic_shared());"
            return f"static const emulated::DynamicShared<{kind}> {name[1]};"
        if not depth:
            raise CannotTranslate(f"shared memory outside functions is not emulated: {declaration}.")
        made = []
        for each in (name, *(re.search(r"(\w+)\s*((?:\[[^]]*\]\s*)*)$", other) for other in others)):
            alias = f"shared_type_of_{each[1]}"
            aligned = f" {found['alignment']}" if found["alignment"] else ""
            made.append(
                f"struct{aligned} {alias} {{ typename emulated::Identity<{kind} {each[2]}>::type value; }}; "
                f"auto& {each[1]} = []() -> auto& {{ static char key; return static_cast<{alias}*>("
                f"emulated::static_shared(&key, sizeof({alias}), alignof({alias})))->value; }}();"
            )
        return " ".join(made)

    return SHARED.sub(replaced, source)


def _split(text: str) -> list[str]:
    """Split at commas that no bracket encloses."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "([{<") - (c in ")]}>")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return parts
