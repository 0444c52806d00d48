"""Runs one unittest module and prints a line of JSON per test, with a time limit for each.

    unit.py MODULE [TEST THAT IS DONE ALREADY]...

Every module gets a process of its own: a test that kills its process costs one module, not a suite. A test that
loses the device ends the process; whoever started it starts another for the rest.
"""

import json
import os
import signal
import sys
import unittest

SECONDS_PER_TEST = 120
# After these nothing in the process can use the device any more: the next test needs another one.
LOST = ("ILLEGAL_ADDRESS", "MISALIGNED_ADDRESS", "ILLEGAL_INSTRUCTION", "LAUNCH_TIMEOUT", "LAUNCH_FAILED")


class TestTakesTooLong(BaseException):
    """Raised by the alarm; no `except Exception` of a test swallows it."""


def too_long(_signal, _frame):
    raise TestTakesTooLong(f"more than {SECONDS_PER_TEST} s")


class Lines(unittest.TestResult):
    """Prints what happened to each test, once, when it is over."""

    def __init__(self, stream):
        super().__init__()
        self.stream = stream
        self.word, self.why = "passed", ""

    def note(self, word, why):
        if self.word != "failed":
            self.word, self.why = word, why

    def startTest(self, test):
        super().startTest(test)
        self.word, self.why = "passed", ""
        signal.alarm(SECONDS_PER_TEST)

    def stopTest(self, test):
        signal.alarm(0)
        self.say(test.id())
        if self.word == "failed" and any(code in self.why for code in LOST):
            self.stop()
        super().stopTest(test)

    def say(self, name):
        line = {"test": name, "result": self.word, "why": self.why}
        print(json.dumps(line), file=self.stream, flush=True)

    def failed(self, test, error):
        if error[0].__name__ == "Skipped":
            # pytest's way of skipping, which unittest takes for an error.
            self.addSkip(test, str(error[1]))
            return
        last = str(error[1]).strip().splitlines() or [""]
        line = f"{error[0].__name__}: {last[0]}"
        self.note("failed", line[:300])
        if not isinstance(test, unittest.TestCase):
            # A class or module that could not be set up is no test, and stops none.
            self.say(str(test))

    def addFailure(self, test, err):
        self.failed(test, err)

    def addError(self, test, err):
        self.failed(test, err)

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.failed(test, err)

    def addSkip(self, test, reason):
        self.note("skipped", reason)
        if not isinstance(test, unittest.TestCase):
            self.say(str(test))

    def addExpectedFailure(self, test, err):
        self.note("passed", "expected to fail, and did")

    def addUnexpectedSuccess(self, test):
        self.note("failed", "expected to fail, and did not")


def flat(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from flat(test)
        else:
            yield test


def main(module, done):
    # Tests print; their lines must not mix with ours.
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    signal.signal(signal.SIGALRM, too_long)
    suite = unittest.defaultTestLoader.loadTestsFromName(module)
    rest = [test for test in flat(suite) if test.id() not in done]
    # A suite of the same classes, so that they are still set up once.
    unittest.TestSuite(rest).run(Lines(results))


if __name__ == "__main__":
    main(sys.argv[1], set(sys.argv[2:]))
