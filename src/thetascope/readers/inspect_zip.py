"""Members of an Inspect `.eval` log, one at a time and never on disk.

The log is a zip. Newer ones compress with Zstandard (method 93), which `zipfile` of Python
3.13 and older cannot unpack; the directory is read with `zipfile` and such members here.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path

import zstandard

from thetascope.errors import InputError

MAX_MEMBER = 256 << 20
"""Largest member that is unpacked, in bytes: a real sample is far below."""

_ZSTD = 93
_UNPACKING = ("header_offset", "compress_size", "file_size", "CRC", "compress_type", "flag_bits")
_LOCAL_MARK = b"PK\x03\x04"
_LOCAL_HEADER = struct.Struct("<4s5H3I2H")


class EvalArchive:
    """An open `.eval` log; of members with one name the last counts.

    Attributes:
        n_replaced: Samples that a later member of the same name replaces.
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
        names = [e.filename for e in entries if e.filename.startswith("samples/")]
        self.n_replaced = len(names) - len(set(names))
        self._directory = _Directory({e.filename: e for e in entries}.values())
        # Hundreds of bytes an entry, for hundreds of thousands of them.
        self._zip.filelist, self._zip.NameToInfo = [], {}

    def __iter__(self) -> Iterator[str]:
        """The names of the members, in the order of the directory."""
        return iter(self._directory.names)

    def __enter__(self) -> EvalArchive:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()
        self._file.close()

    def samples(self) -> Iterator[tuple[str, bytes]]:
        """Yields every sample's name and bytes; raises as `read`."""
        for place, name in enumerate(self):
            if name.startswith("samples/") and name.endswith(".json"):
                yield name, self._unpack(self._directory.entry(place))

    def read(self, name: str) -> bytes | None:
        """Unpacks one member; None where there is none of that name.

        Raises:
            InputError: It is encrypted, too large, damaged, or packed in an unknown way.
        """
        place = next((i for i, known in enumerate(self) if known == name), None)
        return None if place is None else self._unpack(self._directory.entry(place))

    def _unpack(self, entry: zipfile.ZipInfo) -> bytes:
        name = entry.filename
        if entry.flag_bits & 1:
            raise InputError("is encrypted", file=self.path, record=name)
        if entry.file_size > MAX_MEMBER:
            raise InputError(
                f"unpacks to {entry.file_size >> 20:,} MiB; at most {MAX_MEMBER >> 20} are read",
                file=self.path,
                record=name,
            )
        try:
            if entry.compress_type == zipfile.ZIP_DEFLATED:
                # `zipfile` would take as long for opening a member as for unpacking it.
                unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
                return _checked(entry, unpacker.decompress(self._packed(entry), _most(entry)))
            if entry.compress_type == _ZSTD:
                with zstandard.ZstdDecompressor().stream_reader(
                    self._packed(entry), read_across_frames=True
                ) as reader:
                    return _checked(entry, reader.read(_most(entry)))
            with self._zip.open(entry) as member:
                return member.read(entry.file_size)
        except NotImplementedError:
            problem = f"is packed with the unknown method {entry.compress_type}"
            raise InputError(problem, file=self.path, record=name) from None
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, struct.error) as error:
            raise InputError(f"is damaged: {error}", file=self.path, record=name) from None
        except zstandard.ZstdError as error:
            raise InputError(f"is damaged: {error}", file=self.path, record=name) from None

    def _packed(self, entry: zipfile.ZipInfo) -> bytes:
        self._file.seek(entry.header_offset)
        header = _LOCAL_HEADER.unpack(self._file.read(_LOCAL_HEADER.size))
        if header[0] != _LOCAL_MARK:
            raise zipfile.BadZipFile("no member begins where the directory says")
        self._file.seek(header[-2] + header[-1], io.SEEK_CUR)  # name and extra field
        return self._file.read(entry.compress_size)


def _most(entry: zipfile.ZipInfo) -> int:
    """One byte more than declared: it shows a member that lies about its size."""
    return entry.file_size + 1


def _checked(entry: zipfile.ZipInfo, data: bytes) -> bytes:
    if len(data) != entry.file_size or zlib.crc32(data) != entry.CRC:
        raise zipfile.BadZipFile("its size or checksum is not the one in the directory")
    return data


class _Directory:
    """Entries of a zip's directory, of each only what unpacking it takes."""

    def __init__(self, entries: Iterable[zipfile.ZipInfo]) -> None:
        self.names: list[str] = []
        self._numbers = {name: array("Q") for name in _UNPACKING}
        for entry in entries:
            self.names.append(entry.filename)
            for name, column in self._numbers.items():
                column.append(getattr(entry, name))

    def entry(self, place: int) -> zipfile.ZipInfo:
        """The entry at a place in `names`."""
        entry = zipfile.ZipInfo(self.names[place])
        entry.filename = entry.orig_filename = self.names[place]
        for name, column in self._numbers.items():
            setattr(entry, name, column[place])
        return entry
