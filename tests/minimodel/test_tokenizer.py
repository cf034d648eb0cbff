"""The tokenizer: words to ids and back, and the size of the shipped vocabulary."""

import json

import pytest

from minilab import LabError
from minimodel.grammar import load_grammar
from minimodel.tokenizer import Tokenizer

TOKENIZER = Tokenizer.from_words(["walked", "I", "Yesterday", "."])


def test_the_shipped_vocabulary_has_560_to_640_entries():
    assert 560 <= len(Tokenizer.from_words(load_grammar().words)) <= 640


def test_text_comes_back_as_it_was():
    text = "Yesterday I walked. I walked."
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


def test_a_prompt_starts_with_bos():
    ids = TOKENIZER.encode("Yesterday I", bos=True)
    assert ids[0] == TOKENIZER.bos
    assert ids[1:] == TOKENIZER.encode("Yesterday I")
    assert TOKENIZER.decode(ids) == "<bos> Yesterday I"


def test_an_unknown_word_becomes_unk():
    assert TOKENIZER.decode(TOKENIZER.encode("I flew.")) == "I <unk>."


def test_words_in_any_order_make_the_same_vocabulary():
    assert Tokenizer.from_words([".", "Yesterday", "walked", "I", "I"]).tokens == TOKENIZER.tokens


def test_a_saved_vocabulary_loads(tmp_path):
    path = tmp_path / "vocab.json"
    path.write_text(json.dumps({"tokens": TOKENIZER.tokens}))
    assert Tokenizer.load(path).tokens == TOKENIZER.tokens


@pytest.mark.parametrize("content", ["{}", '{"tokens": 3}', '{"tokens": [1]}', "not JSON"])
def test_a_faulty_vocabulary_file_is_refused(tmp_path, content):
    path = tmp_path / "vocab.json"
    path.write_text(content)
    with pytest.raises(LabError, match="again"):
        Tokenizer.load(path)


@pytest.mark.parametrize("tokens", [["I"], ["<bos>", "<pad>", "<unk>"], ["<pad>", "<bos>", "<unk>", "I", "I"]])
def test_a_faulty_list_of_tokens_is_refused(tokens):
    with pytest.raises(LabError, match="the vocabulary"):
        Tokenizer(tokens)


@pytest.mark.parametrize("index", [-1, len(TOKENIZER)])
def test_an_id_outside_the_vocabulary_is_refused(index):
    with pytest.raises(LabError, match="outside the vocabulary"):
        TOKENIZER.decode([index])
