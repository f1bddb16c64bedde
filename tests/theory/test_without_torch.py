"""The exact layer, the programs and their interpreters run where torch and transformers are not installed."""

import subprocess
import sys

HIDE = """
import sys
for name in ("torch", "transformers", "pyarrow", "matplotlib"):
    sys.modules[name] = None  # importing it now fails
from kvdiv.interpreters import enumerate_program, simulate
from kvdiv.programs import naive, swrb
from kvdiv.theory import KernelPair, exact_values, iid
from kvdiv.selfcheck import self_check
assert all(entry["agrees"] for entry in self_check())
pair = KernelPair(iid([1, 0]), iid(["1/2", "1/2"]), 2, 3)
assert sum(outcome.weight for outcome in enumerate_program(lambda: swrb(3), pair)) == 1
assert len(simulate(lambda: naive(3), pair, 5, seed=0)) == 5
import kvdiv.cli
from click.testing import CliRunner
result = CliRunner().invoke(kvdiv.cli.main, ["demo"])
assert result.exit_code == 2, result
assert "needs the extra: pip install 'kvdiv[models]'" in result.output, result.output
"""


def test_the_light_core_needs_neither_torch_nor_transformers():
    """Importing and using theory, programs, interpreters and the command line works with torch and transformers hidden."""
    done = subprocess.run([sys.executable, "-c", HIDE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
