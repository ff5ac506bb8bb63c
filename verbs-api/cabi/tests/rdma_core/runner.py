"""Runs tests of rdma-core and prints a line for each: its name, how it ended, and why."""

import os
import sys
import unittest
from importlib.machinery import SourceFileLoader

HERE = os.path.join(os.getcwd(), "tests")
sys.path.insert(0, HERE)
from args_parser import parser  # noqa: E402


class Result(unittest.TextTestResult):
    def say(self, test, end, why=""):
        print(f"RESULT\t{test.id().removeprefix('tests.')}\t{end}\t{why}", flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.say(test, "pass")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.say(test, "skip", " ".join(reason.split()))

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.say(test, "fail", err[1])

    def addError(self, test, err):
        super().addError(test, err)
        self.say(test, "fail", " ".join(str(err[1]).split()))


tests = SourceFileLoader("tests", os.path.join(HERE, "__init__.py")).load_module()
parser.parse_args()
unittest.main(module=tests, testRunner=unittest.TextTestRunner(resultclass=Result, verbosity=0))
