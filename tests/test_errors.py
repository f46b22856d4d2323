"""The tree of errors: its documentation, its codes, and what a caller is told."""

import re

import pytest

from sie_mcp import errors
from sie_mcp.errors import SieError, error_classes

CLASSES = sorted(error_classes().values(), key=lambda cls: cls.__name__)


def test_the_tree_in_the_documentation_is_the_tree_in_the_code():
    drawn = re.findall(r"([A-Za-z]+) +(\d{3})  (.*)", errors.__doc__)
    documented = {name: (int(status), "retry:" in what) for name, status, what in drawn}
    assert documented == {
        cls.__name__: (cls.status, cls.retryable) for cls in CLASSES if cls is not SieError
    }


@pytest.mark.parametrize("cls", CLASSES)
def test_only_what_a_retry_can_help_says_when(cls):
    assert cls("wrong").retry_after_s == (1.0 if cls.retryable else None)
    assert cls("wrong", retry_after_s=5.0).retry_after_s == 5.0
    assert str(cls("wrong")) == "wrong"


@pytest.mark.parametrize("cls", CLASSES)
def test_what_the_caller_can_fix_is_no_fault_of_the_server(cls):
    is_callers = issubclass(
        cls,
        errors.InvalidInput
        | errors.ModelNotFound
        | errors.JobNotFound
        | errors.ModelInUse
        | errors.NotAllowed,
    )
    # Too many requests is said of what is full for all, too, where the caller is to come later.
    assert (cls.status < 500) == (is_callers or cls in (errors.RateLimited, errors.BacklogFull))
    assert not (cls.retryable and is_callers)


def test_every_class_has_a_code_of_its_own():
    found = {
        value for value in vars(errors).values() if isinstance(value, type)
        and issubclass(value, SieError)
    }  # fmt: skip
    assert set(CLASSES) == found
    assert all(error_classes()[cls.code] is cls for cls in found)
