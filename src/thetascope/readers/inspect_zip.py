"""Members of an Inspect `.eval` log, one at a time and never on disk.

The log is a zip. Newer ones compress with Zstandard (method 93), which `zipfile` of Python
3.13 and older cannot unpack; the directory is read with `zipfile` and such members here.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from pathlib import Path

import zstandard

from thetascope.errors import InputError

MAX_MEMBER = 256 << 20
"""Largest member that is unpacked, in bytes: a real sample is far below."""

_ZSTD = 93
_LOCAL_HEADER = struct.Struct("<4s5H3I2H")


class EvalArchive:
    """An open `.eval` log; `names` are its members, the last of each name counts.

    Attributes:
        members: The directory's entries by name.
        n_replaced: Entries that a later one of the same name replaces.
    """

    def __init__(self, path: Path) -> None:
        """Opens the log; raises InputError where it cannot be read or is no zip."""
        self.path = path
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or error}", file=path) from None
        try:
            self._zip = zipfile.ZipFile(self._file)
            entries = [e for e in self._zip.infolist() if not e.is_dir()]
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            self._file.close()
            raise InputError(f"is no complete zip archive: {error}", file=path) from None
        end = 0
        for entry in sorted(entries, key=lambda e: e.header_offset):
            # A few bytes that count as many members unpack to more than any disk holds.
            if entry.header_offset < end:
                self._file.close()
                raise InputError("has members that overlap", file=path, record=entry.filename)
            end = entry.header_offset + _LOCAL_HEADER.size + entry.compress_size
        self.members = {e.filename: e for e in entries}
        names = [e.filename for e in entries if e.filename.startswith("samples/")]
        self.n_replaced = len(names) - len(set(names))

    def __enter__(self) -> EvalArchive:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()
        self._file.close()

    def read(self, name: str) -> bytes:
        """Unpacks one member.

        Raises:
            InputError: It is encrypted, too large, damaged, or packed in an unknown way.
        """
        entry = self.members[name]
        if entry.flag_bits & 1:
            raise InputError("is encrypted", file=self.path, record=name)
        if entry.file_size > MAX_MEMBER:
            raise InputError(
                f"unpacks to {entry.file_size >> 20:,} MiB; at most {MAX_MEMBER >> 20} are read",
                file=self.path,
                record=name,
            )
        try:
            if entry.compress_type == _ZSTD:
                return self._unpack_zstd(entry)
            with self._zip.open(entry) as member:
                return member.read(entry.file_size)
        except NotImplementedError:
            problem = f"is packed with the unknown method {entry.compress_type}"
            raise InputError(problem, file=self.path, record=name) from None
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, struct.error) as error:
            raise InputError(f"is damaged: {error}", file=self.path, record=name) from None
        except zstandard.ZstdError as error:
            raise InputError(f"is damaged: {error}", file=self.path, record=name) from None

    def _unpack_zstd(self, entry: zipfile.ZipInfo) -> bytes:
        self._file.seek(entry.header_offset)
        header = _LOCAL_HEADER.unpack(self._file.read(_LOCAL_HEADER.size))
        self._file.seek(header[-2] + header[-1], io.SEEK_CUR)  # name and extra field
        packed = self._file.read(entry.compress_size)
        # One byte more than declared shows a member that lies about its size.
        with zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True) as reader:
            data = reader.read(entry.file_size + 1)
        if len(data) != entry.file_size or zlib.crc32(data) != entry.CRC:
            raise zipfile.BadZipFile("its size or checksum is not the one in the directory")
        return data
