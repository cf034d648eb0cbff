"""A flag that is always set has the values of every other: it is tied where the text can be its operation."""

from minicompile.verifying.chance import operation, without_chance
from minicompile.verifying.ties import Line

TEXT = """def kernel(in_ptr0, in_ptr1):
    tmp0 = tl.load(in_ptr0 + x0).to(tl.int1)
    tmp1 = tl.load(in_ptr1 + x0)
    tmp2 = tmp1 >= 0
    tmp3 = tmp2 & tmp0
    tmp4 = tmp3.to(tl.int8)
    tmp5 = libdevice.sin(tmp1)"""
FEW = {"ge": "ge", "and": "bitwise_and", "not": "logical_not", "read": "any", "sign": "sign"}


def lines(*nodes: str) -> list[Line]:
    return [Line(line=number, name=f"tmp{number - 2}", nodes=[*nodes], part=None, elements=1, first=False)
            for number in range(2, 9)]  # fmt: skip


def tied(*wanted: str) -> dict[str, list[str]]:
    made, shown = without_chance(lines(*wanted), TEXT, FEW, {"read"}, {})
    assert shown == {node for line in made for node in line["nodes"]}
    return {node: [line["name"] for line in made if node in line["nodes"]] for node in wanted}


def test_a_comparison_is_where_something_is_compared_and_in_what_is_made_of_it():
    assert tied("ge") == {"ge": ["tmp2", "tmp3", "tmp4"]}


def test_a_conjunction_is_where_two_are_joined():
    assert tied("and") == {"and": ["tmp3", "tmp4"]}


def test_what_is_read_is_where_it_is_loaded():
    assert tied("read") == {"read": [f"tmp{number}" for number in range(6)]}
    assert without_chance(lines("unread"), TEXT, {"unread": "any"}, {"read"}, {})[1] == set()


def test_of_other_operations_and_of_what_tells_apart_nothing_is_asked():
    assert tied("sign", "mul") == {node: [f"tmp{number}" for number in range(7)] for node in ("sign", "mul")}


def test_a_line_that_is_no_node_is_no_part_of_one():
    (line,) = without_chance([Line(line=7, name="tmp5", nodes=["and"], part="slice", elements=1, first=True)],
                             TEXT, FEW, set(), {})[0]  # fmt: skip
    assert (line["nodes"], line["part"]) == ([], None)


def test_operations_by_the_names_of_targets():
    assert operation("aten.any.dims") == "any"
    assert operation("prims.iota.default") == "prims"


SUMS = """def kernel(in_ptr0, in_ptr1):
    tmp0 = tl.load(in_ptr0 + (x0), xmask)
    tmp1 = tl.load(in_ptr1 + (2*x0), xmask)
    tmp2 = tmp0 * tmp1
    tmp3 = tl.broadcast_to(tmp2, [XBLOCK, R0_BLOCK])
    tmp4 = tmp3 - tmp1
    tmp5 = tl.load(in_ptr1 + (tmp0 + 4*x0), xmask)
    tmp6 = tmp5.to(tl.float32)"""


def test_a_sum_of_two_is_no_product_nor_a_read_and_nothing_is_gathered_before_an_index_is_a_value():
    made, _ = without_chance(lines("product", "picked", "difference"), SUMS, {}, set(),
                             {"product": "mul", "picked": "gather", "difference": "sub"})  # fmt: skip
    named = {
        node: [one["name"] for one in made if node in one["nodes"]] for node in ("product", "picked", "difference")
    }
    everywhere = [f"tmp{number}" for number in range(7)]
    assert named["product"] == ["tmp2", "tmp3"]
    assert named["picked"] == ["tmp5", "tmp6"]
    assert named["difference"] == ["tmp4"]
    made, _ = without_chance(lines("product"), SUMS, {}, {"product"}, {"product": "mul"})
    assert [one["name"] for one in made if one["nodes"]] == [name for name in everywhere if name != "tmp4"]


SORTED = """def kernel(in_ptr0, in_ptr1):
    tmp0 = tl.load(in_ptr0 + (x0), xmask)
    tmp1, tmp2 = triton_helpers.sort_with_index(tmp0, x1, None, 1)
    tmp3 = tl_math.abs(tmp1)
    tmp4 = tmp3.to(tl.float32)"""


def test_a_function_is_where_its_name_is_and_a_sort_in_a_kernel_that_sorts():
    operations = {"sorted": "sort", "absolute": "abs"}
    for text, where in ((SORTED, [2, 3, 4, 5]), (SORTED.replace("sort_with", "some_with"), [])):
        made, _ = without_chance(lines("sorted", "absolute")[:4], text, {}, set(), operations)
        named = {node: [one["line"] for one in made if node in one["nodes"]] for node in operations}
        assert named == {"absolute": [4], "sorted": where}


def test_an_input_is_where_it_is_read_and_where_that_is_passed_on():
    for loaded, where in (({"given"}, ["tmp0", "tmp1", "tmp2", "tmp3", "tmp4", "tmp5", "tmp6"]), (set(), [])):
        made, _ = without_chance(lines("given")[:7], SUMS, {}, loaded, {"given": "placeholder"})
        assert [one["name"] for one in made if one["nodes"]] == where


TIMES_ONE = """def kernel(in_ptr0, out_ptr0):
    tmp0 = libdevice.rsqrt(tmp9)
    tmp1 = tmp0 * tmp8
    tmp2 = (r0_2).to(tl.int16)
    tmp3 = tl.where(r0_mask & xmask, tmp1, -2147483648)
    tmp4 = triton_helpers.max2(tmp3, 1)[:, None]"""


def test_a_product_is_no_root_a_cast_no_power_and_a_masked_value_no_maximum():
    operations = {"root": "rsqrt", "product": "mul", "square": "pow", "largest": "max"}
    made, _ = without_chance(lines(*operations)[:5], TIMES_ONE, {}, set(), operations)
    named = {node: [one["name"] for one in made if node in one["nodes"]] for node in operations}
    assert named == {
        "root": ["tmp0"],
        "product": ["tmp1", "tmp3", "tmp4"],  # what is passed on has its values
        "square": ["tmp0", "tmp1", "tmp3", "tmp4"],
        "largest": ["tmp4"],
    }


def test_what_is_added_up_where_values_say_is_in_memory_alone():
    """However few numbers it has: where all are zero, every line of zeros has its values."""
    text = "def kernel(in_ptr0):\n    tmp0 = tl.load(in_ptr0 + x0)\n    tmp1 = tl.where(mask, x0, tmp9)"
    for loaded in (set(), {"sum"}):
        made, _ = without_chance(lines("sum")[:2], text, {}, loaded, {"sum": "scatter_add"})
        assert [line["nodes"] for line in made] == [["sum"], []]


def test_a_product_is_chosen_where_the_other_choice_is_zero():
    """As `x * flag` is written. A maximum of one value has that value, and multiplies nothing."""
    text = "def kernel(in_ptr0):\n    tmp0 = tl.full([1], {}, tl.float32)\n    tmp1 = tl.where(tmp9, tmp8, tmp0)"
    for number, tied_to in (("0.0", ["product"]), ("-1.0", [])):
        made, _ = without_chance(lines("product")[1:2], text.format(number), {}, set(), {"product": "mul"})
        assert made[0]["nodes"] == tied_to
