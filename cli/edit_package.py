"""The loop of `ctrace kernels edit`: check, print one line, wait for a save."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

from ctrace.inspector.errors import CtraceError, Exit, TargetError

if TYPE_CHECKING:
    from ctrace.inspector.features.workshop.kernel_package import KernelPackage
    from ctrace.inspector.features.workshop.package_model import CheckedPackage, PackageCheckRequest


class Editing:
    """Checks one package, again and again."""

    def __init__(self, folder: str, *, is_timed: bool, code: bool, target: str, seconds: float | None) -> None:
        """Find the package.

        Raises:
            TargetError: there is none in the folder, or several.
        """
        from ctrace.inspector.features.workshop.kernel_package import found_in

        found = found_in(folder)
        if len(found) > 1:
            names = ", ".join(str(each) for each in found[:5])
            raise TargetError(f"{folder} has {len(found)} packages: {names}", "name one of these folders")
        self._folder = found[0]
        self._is_timed = is_timed
        self._code = code
        self._target = target
        self._seconds = seconds
        self._last: CheckedPackage | None = None
        """The last version that was correct, with which the next one is compared."""

    def _package(self) -> "KernelPackage":
        from ctrace.inspector.features.workshop.kernel_package import package_at

        return package_at(self._folder)

    def _request(self) -> "PackageCheckRequest":
        from msgspec.structs import replace

        from ctrace.inspector.features.workshop.package_model import PackageCheckRequest

        request = PackageCheckRequest(str(self._folder), self._is_timed, self._code, self._target)
        if self._seconds is None:
            return request
        return replace(request, seconds=self._seconds)

    def _check(self) -> "CheckedPackage":
        from ctrace.cli.progress import progress
        from ctrace.inspector.features.workshop.package_children import checked

        with progress() as shown:
            shown.say("checking")
            return checked(self._package(), self._request(), lambda: shown.observe(None))

    def once(self, output: Path | None, *, json: bool) -> int:
        """Check once; return the exit code.

        Raises:
            CtraceError: the package does not parse, or its code fails.
        """
        from ctrace.cli.console import write_report
        from ctrace.reports.escape import plain_document
        from ctrace.reports.json.package_results import render_edit_json
        from ctrace.reports.wording.kernel_packages import check_line

        found = self._check()
        lines = [check_line(None, found), *found.notes]
        text = render_edit_json(str(self._folder), found) if json else plain_document("\n".join(lines) + "\n")
        write_report(text, output)
        if found.is_right:
            return Exit.DONE
        return Exit.WORSE

    def watch(self) -> int:
        """Check now and after every save, until Ctrl-C or until nobody reads stdout."""
        from ctrace.cli.console import is_stdout_unread, say
        from ctrace.cli.streams import EndedBySignal
        from ctrace.inspector.features.workshop.kernel_package import bare_package, changed, next_change, stamp_of

        package = bare_package(self._folder)
        say(f"ctrace: watching {self._folder}; Ctrl-C ends")
        stamp = stamp_of(package)
        names: tuple[str, ...] = ()
        try:
            self._report(names)
            while not is_stdout_unread():
                after = next_change(package, stamp)
                stamp, names = after, changed(stamp, after)
                self._report(names)
        except (EndedBySignal, KeyboardInterrupt) as signal:
            if getattr(signal, "name", "SIGINT") != "SIGINT":
                raise
            say("ctrace: stopped watching")
        return Exit.DONE

    def _report(self, names: tuple[str, ...]) -> None:
        """Check once, and print one line; an error in the package is one, too."""
        from ctrace.cli.console import write_report
        from ctrace.inspector.features.workshop.kernel_package import code_diffs
        from ctrace.reports.escape import plain_document
        from ctrace.reports.wording.kernel_packages import check_line

        label = f"{time.strftime('%H:%M:%S')} {', '.join(names) or 'as it is'}"
        try:
            found = self._check()
        except CtraceError as error:
            write_report(plain_document(f"{label}: {error.what}\n"), None)
            return
        lines = [f"{label}: {check_line(self._last, found)}", *found.notes]
        if self._last is not None:
            lines += code_diffs(self._last, found)
        write_report(plain_document("\n".join(lines) + "\n"), None)
        if found.is_right:
            self._last = found
