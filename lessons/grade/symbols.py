"""What an object file defines for others. grade.py asks whether a student's file takes the place of a
function of the checker, of the library, or of the system."""

import functools
import re
import subprocess

WEAK = "WVu"  # kinds of symbols that another object may define, too: inline functions, templates
NAMESPACES = r"(.* for )?(lesson|nanofsdp|fmt|std)::"


def defined(file):
    """(kind, name) of all that this object defines, or this archive of objects; the kinds are those of nm."""
    said = subprocess.run(["nm", "-g", "--defined-only", file], check=True, capture_output=True, text=True,
                          errors="replace")
    return re.findall(r"^[0-9a-f]+ (\S) (.*)$", said.stdout, re.M)


@functools.cache
def strong(archive, _changed):
    return {name for kind, name in defined(archive) if kind not in WEAK}


def readable(name):
    """The name of a symbol as it is written in C++, without its arguments."""
    said = subprocess.run(["c++filt", name], check=True, capture_output=True, text=True)
    return said.stdout.strip().split("(")[0]


def not_yours(checker, yours, archives):
    """Says which symbol of the object `yours` could be called in place of another function, or nothing."""
    of_checker = {name for _, name in defined(checker)}
    of_library = set().union(*(strong(archive, archive.stat().st_mtime_ns) for archive in archives))
    for kind, name in defined(yours):
        # The system's functions have the names that C gives them: write, read.
        if kind in "TWi" and not name.startswith(("_Z", "__clang_call_terminate")):
            return f'defines {name} as a function of C, which could replace one of the system. Remove extern "C".'
        # The linker takes no function from an archive that an object has defined, even as an inline one.
        if name in of_library or kind not in WEAK and (
                name in of_checker or re.match(NAMESPACES, readable(name))):
            return f"defines {readable(name)}, which is not yours to define. Give your function another name."
    return None
