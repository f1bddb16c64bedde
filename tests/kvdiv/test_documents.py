"""Documents: sizes, determinism, answers that are really in the text, and a user's files with their errors."""

import json
import re
from collections import Counter
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvdiv.documents import KINDS, Document, demo_documents, installed_texts, read_documents, synthetic
from kvdiv.documents import installed as installed_module
from kvdiv.documents.installed import clean
from kvdiv.documents.sizing import largest, words
from kvdiv.theory.errors import DocumentError


def message(task):
    return task.document.messages[0][1]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=10)
@given(seed=st.integers(0, 10**6), low=st.integers(150, 600))
def test_tasks_hit_the_band(kind, seed, low):
    """Every kind, seed and band: the message's count lies in the band, and the same call gives the same task."""
    band = (low, 2 * low)
    tasks = synthetic(kind, 2, tokens=band, seed=seed)
    assert all(band[0] <= words(message(task)) <= band[1] for task in tasks)
    assert tasks == synthetic(kind, 2, tokens=band, seed=seed)
    assert tasks[0] != synthetic(kind, 1, tokens=band, seed=seed + 1)[0]


def test_tasks_do_not_depend_on_the_call_order():
    """A task depends on (seed, kind, index) and its size only."""
    first = synthetic("multi-key", 1, tokens=(300, 400), seed=1)
    synthetic("single-needle", 3, tokens=(300, 400), seed=1)
    assert synthetic("multi-key", 1, tokens=(300, 400), seed=1) == first


@pytest.mark.parametrize(
    ("kind", "needles"), [("single-needle", 1), ("multi-key", 4), ("multi-value", 4), ("multi-query", 4)]
)
@given(seed=st.integers(0, 10**6))
@settings(max_examples=10)
def test_needles_are_in_the_text_once(kind, needles, seed):
    """Every answer is stated exactly once, for the owner the question asks about; nothing else looks like one."""
    (task,) = synthetic(kind, 1, tokens=(400, 800), seed=seed)
    stated = re.findall(r"The locker of (\w+) opens with the number (\d+)\.", message(task))
    assert len(stated) == needles
    question = message(task).rsplit("\n\n", 1)[1]
    asked = [owner for owner, _ in stated if re.search(rf"\b{owner}\b", question)]
    assert {code for owner, code in stated if owner in asked} == set(task.answers)
    for answer in task.answers:
        assert message(task).count(answer) == 1
    if kind == "multi-query":
        order = {code: question.index(owner) for owner, code in stated}
        assert [order[answer] for answer in task.answers] == sorted(order.values())


@given(seed=st.integers(0, 10**6))
@settings(max_examples=20)
def test_variables_lead_to_their_value(seed):
    """Following the assignments, in whatever order they stand, gives exactly the answer's variables."""
    (task,) = synthetic("variable-tracking", 1, tokens=(400, 800), seed=seed)
    assignments = dict(re.findall(r"Set ([A-Z]+) to (\w+)\.", message(task)))
    wanted = re.search(r"whose value is (\d+)", message(task))[1]

    def value(name):
        return value(assignments[name]) if name in assignments else name

    assert {name for name in assignments if value(name) == wanted} == set(task.answers)
    assert len(task.answers) == 5
    assert len(assignments) == 8


@pytest.mark.parametrize("kind", ["common-words", "frequent-words"])
@given(seed=st.integers(0, 10**6))
@settings(max_examples=10)
def test_word_counts_are_what_the_question_says(kind, seed):
    """The answers are the words that occur more than once, the most frequent first and no two equally often where asked so."""
    (task,) = synthetic(kind, 1, tokens=(300, 600), seed=seed)
    counts = Counter(message(task).split("\n\n")[1].split())
    repeated = [word for word, times in counts.most_common() if times > 1]
    assert set(repeated) == set(task.answers)
    if kind == "frequent-words":
        assert tuple(repeated) == task.answers
        assert len({counts[word] for word in repeated}) == 3


def test_long_tasks():
    """Thirty thousand words are no problem, and counting is not done for every amount."""
    calls = []

    def count(text):
        calls.append(1)
        return words(text)

    (task,) = synthetic("common-words", 1, tokens=(30_000, 31_000), seed=0, count=count)
    assert 30_000 <= words(message(task)) <= 31_000
    assert len(calls) < 40


@given(st.integers(0, 5000), st.integers(1, 100))
def test_largest_is_the_largest(limit, start):
    """largest() finds the last amount whose count is within the limit, 0 where none is."""
    found = largest(lambda amount: "x " * (3 * amount), words, limit=limit, start=start)
    assert found == limit // 3


def test_impossible_tasks_are_refused():
    """An unknown kind, a band too low, an empty band: DocumentErrors that name them."""
    with pytest.raises(DocumentError, match="unknown kind of task 'maze'; known: single-needle"):
        synthetic("maze", 1, tokens=(100, 200), seed=0)
    with pytest.raises(DocumentError, match="cannot be made 5 to 6 tokens"):
        synthetic("multi-key", 1, tokens=(5, 6), seed=0)
    with pytest.raises(DocumentError, match=r"band 9\.\.8"):
        synthetic("multi-key", 1, tokens=(9, 8), seed=0)


def test_installed_texts_are_sized_and_named():
    """Real texts in the band, ids with versions, in a fixed order, each asking about its own package."""
    texts = installed_texts(3, tokens=(200, 400))
    assert texts == installed_texts(3, tokens=(200, 400))
    assert len({text.id for text in texts}) == 3
    for text in texts:
        assert 200 <= words(text.messages[0][1]) <= 400
        assert text.stratum == "texts"
        name = re.match(
            r"This is the description that comes with the software package ([\w-]+)\.", text.messages[0][1]
        )[1]
        assert text.id.startswith(f"{name}-")


def test_too_few_installed_texts_are_counted(monkeypatch):
    """A machine without long descriptions is told how many there are."""

    class Metadata(dict):
        json = {"description": "short"}  # noqa: RUF012  # stands for a distribution's metadata

    one = SimpleNamespace(metadata=Metadata(Name="tiny"), version="1")
    monkeypatch.setattr(installed_module, "distributions", lambda: [one])
    with pytest.raises(
        DocumentError, match="0 installed packages have descriptions of 100 tokens or more and 2 are needed"
    ):
        installed_texts(2, tokens=(100, 200))


def test_descriptions_are_cleaned():
    """Images, HTML and link targets go; text and link words stay."""
    assert (
        clean("<p>Hello</p> ![badge](x.svg)\n\n\n\nsee [the docs](http://x)\n.. image:: y.png\n")
        == "Hello\n\nsee the docs"
    )


def test_the_demos_mix():
    """Half real texts, half synthetic tasks of different kinds; prompts of 1,000 to 2,500 tokens; fixed by the seed."""
    mix = demo_documents(8, seed=0)
    assert [document.stratum for document in mix] == ["texts"] * 4 + ["synthetic"] * 4
    assert len({document.id for document in mix}) == 8
    sizes = [words(document.messages[0][1]) for document in mix]
    assert all(1000 <= size <= 2500 for size in sizes)
    assert max(sizes) - min(sizes) > 500
    assert mix == demo_documents(8, seed=0)
    assert mix != demo_documents(8, seed=1)


def write(tmp_path, *lines, name="mine.jsonl"):
    path = tmp_path / name
    path.write_bytes(b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines))
    return path


def test_a_users_jsonl(tmp_path):
    """prompt or messages, an optional stratum, blank lines allowed."""
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}]
    path = write(tmp_path, {"id": "a", "prompt": "Hello"}, b"", {"id": "b", "stratum": "s", "messages": chat})
    assert read_documents(path) == [
        Document("a", "user", (("user", "Hello"),)),
        Document("b", "s", (("system", "Be brief."), ("user", "Why?"))),
    ]


def test_text_files(tmp_path):
    """A text file is a document; a folder is its .txt files by name."""
    (tmp_path / "b.txt").write_text("second")
    (tmp_path / "a.txt").write_text("first")
    assert [document.id for document in read_documents(tmp_path)] == ["a", "b"]
    assert read_documents(tmp_path / "b.txt")[0].messages == (("user", "second"),)


@pytest.mark.parametrize(
    ("lines", "words_"),
    [
        ([{"id": "a", "prompt": "x"}, b'{"id": "b", "prom'], "line 2: not JSON"),
        ([b'{"id": "a", "prompt": "caf\xc3'], "byte 26 is not UTF-8"),
        ([{"id": "a"}], "'a' needs either 'prompt' or 'messages'"),
        ([{"id": "a", "prompt": "x", "messages": []}], "needs either"),
        ([{"prompt": "x"}], "line 1: an object with a string 'id'"),
        ([["a", "x"]], "line 1: an object"),
        ([{"id": "a", "prompt": 3}], "strings 'role' and 'content'"),
        ([{"id": "a", "messages": [{"role": "user"}]}], "strings 'role' and 'content'"),
        ([{"id": "a", "prompt": "x", "stratum": 3}], "'stratum' must be a string"),
        ([{"id": "a", "prompt": "x"}, {"id": "a", "prompt": "y"}], "two documents have the id 'a'"),
        ([{"id": "a", "prompt": "  "}], "'a' has no text"),
        ([b""], "holds no documents"),
    ],
)  # fmt: skip
def test_wrong_files_are_named(tmp_path, lines, words_):
    """A torn line, a cut UTF-8 character, missing or doubled fields, double ids, empty text (fault 39): file and line named."""
    path = write(tmp_path, *lines)
    with pytest.raises(DocumentError, match=re.escape(words_)):
        read_documents(path)


def test_a_missing_file_is_named(tmp_path):
    """A path that is not there is a DocumentError."""
    with pytest.raises(DocumentError, match=r"nowhere\.jsonl cannot be read"):
        read_documents(tmp_path / "nowhere.jsonl")
