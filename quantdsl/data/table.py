"""Tables from anywhere as batches of columns: CSV, Parquet, Arrow IPC, folders, live objects.

A `Table` can be read any number of times and never as a whole, so data larger than memory works.
pyarrow is loaded on first use, because a run on the built-in market does not need it.
"""

import csv
import hashlib
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Protocol

from quantdsl.data.arrow import floats
from quantdsl.data.many import named
from quantdsl.errors import DataError

BLOCK_BYTES = 4 << 20
"""Size of one block of text: large enough to parse fast, small enough for bounded memory."""

_HEADER_BYTES = 1 << 16
_NULLS = ["", "NaN", "nan", "NA", "N/A", "#N/A", "null", "NULL", "None", "-"]
_NUMBER = r"^([+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|-?inf)$"
_SUFFIXES = (".csv", ".txt", ".tsv", ".parquet", ".pq", ".feather", ".arrow", ".ipc")
_PACKED = (".gz", ".zst", ".bz2", ".lz4", ".zip")


class Table(Protocol):
    """A named table; `header_rows` lines stand before its first row."""

    name: str
    header_rows: int

    def columns(self) -> list[str]: ...

    def batches(
        self, text: Sequence[str], numbers: Sequence[str], dropped: Counter[str] | None = None
    ) -> Iterator[Any]:
        """Record batches with the `text` columns in their own type and `numbers` as float64.

        DataError at a cell that should be a number and is not; where `dropped` is given, such a
        cell is null instead, and lines with too few or too many cells are left out and counted.
        """
        ...

    def sha256(self) -> str: ...


def open_table(source: object) -> list[Table]:
    """The tables behind a path, a folder (its files in order of name) or an arrow-like object."""
    if isinstance(source, ObjectTable):
        return [source]
    if not isinstance(source, str | Path):
        return [ObjectTable(source)]
    path = Path(source)
    if path.is_dir():
        return [_open_file(one) for one in list_files(path)]
    hold_there(path)
    return [_open_file(path)]


def hold_there(path: Path) -> None:
    """DataError where there is neither a file nor a folder, or what is read but once."""
    if path.is_fifo():
        raise DataError(f"{path}: is a pipe, and data are read more than once: save them to a file")
    if not path.exists():
        raise DataError(f"{path}: there is no such file or folder")


def list_files(folder: Path) -> list[Path]:
    """The data files of a folder in order of name, numbers as such; DataError where it has none."""
    visible = (one for one in folder.iterdir() if one.name[0] != ".")  # ._KO.csv is no KO.csv
    found = sorted((one for one in visible if one.is_file() and _is_data(one)), key=_by_number)
    if not found:
        raise DataError(
            f"{folder}: holds no data file: looked for {' '.join(_SUFFIXES)}, also packed as "
            f"{' '.join(_PACKED)}"
        )
    return found


def _by_number(path: Path) -> tuple[list[str | int], str]:
    """The name with its numbers as such: KO_2.csv comes before KO_10.csv."""
    parts = re.split(r"(\d+)", path.name)
    return [int(part) if at % 2 else part for at, part in enumerate(parts)], path.name


def stem(path: Path) -> str:
    """The file name without its endings: `KO` of `KO.csv.gz`."""
    name = path.name
    for ending in (*_PACKED, *_SUFFIXES):
        if name.lower().endswith(ending):
            name = name[: -len(ending)]
    return name


def _is_data(path: Path) -> bool:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _PACKED:
        suffixes.pop()
    return bool(suffixes) and suffixes[-1] in _SUFFIXES


def _open_file(path: Path) -> Table:
    try:
        with path.open("rb") as file:
            head = file.read(8)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    if not head:
        raise DataError(f"{path}: the file is empty")
    if head.startswith(b"PAR1"):
        return ParquetTable(path)
    if head.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return ArrowTable(path)
    return CsvTable(path)


def file_sha256(path: Path) -> str:
    """SHA-256 of the file's bytes, as `sha256sum` prints it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def joined_sha256(hashes: Sequence[str]) -> str:
    """One hash of several; a single one stands for itself."""
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("\n".join(hashes).encode()).hexdigest()


class CsvTable:
    """Delimited text, plain or packed; the delimiter and the decimal sign are found out."""

    header_rows = 1

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, str(path)
        self.first_torn = self.first_unread = ""  # of lines and cells that are left out
        head = self._head()
        self._delimiter = max(",;\t|", key=head[0].count)
        self._comma = self._delimiter != "," and any(
            _is_comma_number(cell) for line in head[1:] for cell in line.split(self._delimiter)
        )
        header = next(csv.reader([head[0]], delimiter=self._delimiter))
        self._names = [name or f"Unnamed: {index}" for index, name in enumerate(header)]
        if len(self._names) < 2:
            raise DataError(f"{self.name}: is not a table: its first line is {head[0][:60]!r}")

    def columns(self) -> list[str]:
        return self._names

    def sha256(self) -> str:
        return file_sha256(self.path)

    def batches(
        self, text: Sequence[str], numbers: Sequence[str], dropped: Counter[str] | None = None
    ) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.csv as pc

        columns = [f"c{self._names.index(name)}" for name in (*text, *numbers)]
        number = pa.float64() if dropped is None else pa.string()
        kinds = [pa.string()] * len(text) + [number] * len(numbers)
        convert = pc.ConvertOptions(
            column_types=dict(zip(columns, kinds, strict=True)),
            include_columns=columns,
            null_values=_NULLS,
            strings_can_be_null=True,
            decimal_point="," if self._comma else ".",
        )
        names = [f"c{index}" for index in range(len(self._names))]
        read = pc.ReadOptions(column_names=names, skip_rows=1, block_size=BLOCK_BYTES)

        def skip(row: Any) -> str:
            assert dropped is not None
            self.first_torn = self.first_torn or f"{row.text[:60]!r} has {row.actual_columns} cells"
            dropped["wrong number of cells"] += 1
            return "skip"

        handler = None if dropped is None else skip
        parse = pc.ParseOptions(delimiter=self._delimiter, invalid_row_handler=handler)
        try:
            for batch in pc.open_csv(self._stream(), read, parse, convert):
                named = batch.rename_columns([*text, *numbers])
                if dropped is None:
                    yield named
                    continue
                lenient = _lenient(named, numbers, self._comma)
                self.first_unread = self.first_unread or _unread(named, lenient, numbers)
                yield lenient
        except pa.ArrowInvalid as error:
            if "Empty CSV" in str(error):
                return
            raise DataError(f"{self.name}: {self._fault(numbers) or error}") from None
        except OSError as error:
            raise DataError(f"{self.name}: is damaged: {error}") from None

    def _fault(self, numbers: Sequence[str]) -> str | None:
        """The first cell that should be a number and is not, with its line."""
        lines = csv.reader(
            io.TextIOWrapper(self._stream(), "utf-8", "replace"), delimiter=self._delimiter
        )
        next(lines)
        try:
            for line_number, cells in enumerate(lines, 2):
                if not cells:
                    continue
                if len(cells) != len(self._names):
                    return f"line {line_number} has {len(cells)} cells and the header has " + str(
                        len(self._names)
                    )
                for name in numbers:
                    cell = cells[self._names.index(name)].strip()
                    if cell not in _NULLS and not _is_number(cell, self._comma):
                        why = ": decimals stand behind a comma here" if self._comma else ""
                        said = f"{name} is {cell[:60]!r}, which is not a number"
                        return f"line {line_number}: {said}{why}"
        except csv.Error as error:  # a cell without an end
            return f"line {lines.line_num}: {error}"
        return None

    def _stream(self) -> Any:
        return open_bytes(self.path)

    def _head(self) -> list[str]:
        """The first lines; DataError where they are not text."""
        try:
            raw: bytes = self._stream().read(_HEADER_BYTES)
        except OSError as error:
            raise DataError(f"{self.name}: is damaged: {error}") from None
        if len(raw) == _HEADER_BYTES:  # it may end within a character: its last line is left out
            raw, end, _ = raw.rpartition(b"\n")
            if not end:
                raise DataError(
                    f"{self.name}: is not a table: its first line has more than {_HEADER_BYTES:,} "
                    "bytes"
                )
        bad = raw.find(b"\0")
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            text, bad = "", error.start
        if bad >= 0:
            raise DataError(
                f"{self.name}: is not a table: {_no_text(raw, bad)}. quantdsl reads CSV (UTF-8), "
                "Parquet and Arrow files, also packed as .gz .zst .bz2 .zip"
            )
        if not text.strip():
            raise DataError(f"{self.name}: the file is empty")
        if _JSON.match(text):
            raise DataError(
                f"{self.name}: is not a table: its lines are JSON, of which quantdsl reads "
                "recordings of Binance's streams alone\nhelp: write its values as CSV or Parquet, "
                "a column each"
            )
        return text.splitlines()[:20]


_JSON = re.compile(r"\s*([\d.]+:? )?[{\[]\s*[\"{\[]")
"""How JSON begins, with a time of receipt before it or without."""

_MARKS = {
    b"\x1f\x8b": "it is packed by gzip, and its name does not end in .gz",
    b"\x28\xb5\x2f\xfd": "it is packed by zstd, and its name does not end in .zst",
    b"BZh": "it is packed by bzip2, and its name does not end in .bz2",
    b"PK\x03\x04": "it is packed by zip, and its name does not end in .zip",
    b"\xfd7zXZ": "it is packed by xz: unpack it",
    b"\xff\xfe": "it is text in UTF-16: save it as UTF-8",
    b"\xfe\xff": "it is text in UTF-16: save it as UTF-8",
}
"""How files begin that are taken for a CSV file, and are none."""


def _no_text(raw: bytes, bad: int) -> str:
    """Why bytes are no text in UTF-8, whose first wrong one is at `bad`."""
    for mark, said in _MARKS.items():
        if raw.startswith(mark):
            return said
    line = raw.count(b"\n", 0, bad) + 1
    if line == 1 and b"\0" in raw[: bad + 1]:
        return f"its first bytes are {raw[:8].hex(' ')}"
    return f"line {line} is no text in UTF-8"


def open_bytes(path: Path) -> Any:
    """The bytes of a file as a stream, unpacked where its name says that it is packed."""
    import pyarrow as pa

    if path.suffix.lower() == ".zip":
        return _unzip(path)
    return pa.input_stream(str(path), compression="detect")


def _unzip(path: Path) -> IO[bytes]:
    import zipfile

    try:
        archive = zipfile.ZipFile(path)
    except zipfile.BadZipFile:
        raise DataError(f"{path}: is damaged: it is not a zip archive") from None
    names = (name for name in archive.namelist() if not name.endswith("/"))
    members = [name for name in names if name.rsplit("/", 1)[-1][0] != "."]  # ._KO.csv is no KO.csv
    if len(members) != 1:
        listed = f" ({named(members)})" if members else ""
        raise DataError(
            f"{path}: holds {len(members)} files{listed}; a zip archive must hold one table"
        )
    return archive.open(members[0])


def _is_number(cell: str, comma: bool) -> bool:
    if comma and "." in cell:  # 7.256 shares are 7256 where 101,29 is a price
        return False
    try:
        float(cell.replace(",", ".") if comma else cell)
    except ValueError:
        return False
    return "_" not in cell


def _is_comma_number(cell: str) -> bool:
    return cell.count(",") == 1 and cell.replace(",", "").strip("- ").isdigit()


class ParquetTable:
    """A Parquet file, read row group by row group."""

    header_rows = 0

    def __init__(self, path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.path, self.name = path, str(path)
        try:
            self._names: list[str] = pq.read_schema(path).names
        except (pa.ArrowInvalid, OSError) as error:
            raise DataError(f"{path}: is a damaged Parquet file: {error}") from None

    def columns(self) -> list[str]:
        return self._names

    def sha256(self) -> str:
        return file_sha256(self.path)

    def batches(
        self, text: Sequence[str], numbers: Sequence[str], dropped: Counter[str] | None = None
    ) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns, lenient = [*text, *numbers], dropped is not None
        try:
            with pq.ParquetFile(self.path) as file:
                # Threads would keep a heap each: with 16 of them a million bars take 30 MB more.
                parts = file.iter_batches(batch_size=1 << 16, columns=columns, use_threads=False)
                for part in parts:
                    yield _as_numbers(part.select(columns), numbers, self.name, lenient)
        except (pa.ArrowInvalid, OSError) as error:
            raise DataError(f"{self.path}: is a damaged Parquet file: {error}") from None


class ArrowTable:
    """An Arrow IPC file (also called Feather) or stream, mapped into memory."""

    header_rows = 0

    def __init__(self, path: Path) -> None:
        import pyarrow as pa

        self.path, self.name = path, str(path)
        try:
            with pa.memory_map(str(path)) as source:
                self._names: list[str] = self._open(source).schema.names
        except (pa.ArrowInvalid, OSError) as error:
            raise DataError(f"{path}: is a damaged Arrow file: {error}") from None

    def columns(self) -> list[str]:
        return self._names

    def sha256(self) -> str:
        return file_sha256(self.path)

    def batches(
        self, text: Sequence[str], numbers: Sequence[str], dropped: Counter[str] | None = None
    ) -> Iterator[Any]:
        import pyarrow as pa

        columns, lenient = [*text, *numbers], dropped is not None
        try:
            with pa.memory_map(str(self.path)) as source:
                reader = self._open(source)
                count = getattr(reader, "num_record_batches", None)
                found = reader if count is None else map(reader.get_batch, range(count))
                for part in found:
                    yield _as_numbers(part.select(columns), numbers, self.name, lenient)
        except (pa.ArrowInvalid, OSError) as error:
            raise DataError(f"{self.path}: is a damaged Arrow file: {error}") from None

    def _open(self, source: Any) -> Any:
        import pyarrow as pa

        try:
            return pa.ipc.open_file(source)
        except pa.ArrowInvalid:
            source.seek(0)
            return pa.ipc.open_stream(source)


class ObjectTable:
    """A table in memory: pyarrow, pandas, polars or anything with the Arrow C stream.

    `name` is for messages, where it is a part of another table.
    """

    header_rows = 0

    def __init__(self, source: object, name: str = "") -> None:
        import pyarrow as pa

        self.name = name or f"the {type(source).__name__} given"
        if (levels := getattr(getattr(source, "columns", None), "nlevels", 1)) > 1:
            first = source.columns[0]  # type: ignore[attr-defined]
            raise DataError(
                f"{self.name}: its columns have {levels} levels, such as {first!r}\n"
                "help: make one of them: df.stack(LEVEL).reset_index() has a column of that level, "
                "as of symbols, and df.droplevel(LEVEL, axis=1) goes without it"
            )
        if type(getattr(source, "index", None)).__name__ == "DatetimeIndex":
            source = source.reset_index()  # type: ignore[attr-defined]  # pandas: the index is time
        if isinstance(source, pa.Table):
            self._table = source
        elif hasattr(source, "__arrow_c_stream__"):
            try:
                self._table = pa.table(source)
            except (pa.ArrowException, TypeError, ValueError) as error:  # a Series; a name twice
                raise DataError(f"{self.name} cannot be read as a table: {error}") from None
        else:
            raise DataError(
                f"{self.name} is not a table: give a path, or a pyarrow, pandas or polars table"
            )

    def columns(self) -> list[str]:
        return [str(name) for name in self._table.column_names]

    def sha256(self) -> str:
        digest = hashlib.sha256()
        for column in self._table.combine_chunks().columns:
            for chunk in column.chunks:
                for buffer in chunk.buffers():
                    digest.update(b"" if buffer is None else buffer)
        return digest.hexdigest()

    def batches(
        self, text: Sequence[str], numbers: Sequence[str], dropped: Counter[str] | None = None
    ) -> Iterator[Any]:
        columns = [*text, *numbers]
        for batch in self._table.select(columns).to_batches(max_chunksize=1 << 16):
            yield _as_numbers(batch, numbers, self.name, dropped is not None)


def _lenient(batch: Any, numbers: Sequence[str], comma: bool = False) -> Any:
    """The batch with its text columns among `numbers` as float64, null where a cell is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for name in numbers:
        index = batch.schema.get_field_index(name)
        column = batch.column(index)
        if not pa.types.is_string(column.type) and not pa.types.is_large_string(column.type):
            continue
        cells = pc.utf8_trim_whitespace(column)
        if comma:
            grouped = pc.match_substring(cells, ".")  # of thousands: see _is_number
            cells = pc.if_else(grouped, None, pc.replace_substring(cells, ",", "."))
        known = pc.match_substring_regex(cells, _NUMBER)
        number = pc.cast(pc.if_else(known, cells, None), pa.float64())
        batch = batch.set_column(index, name, number)
    return batch


def _unread(batch: Any, read: Any, numbers: Sequence[str]) -> str:
    """The first cell of a batch that was read as no number and is not empty, "" if none is."""
    import pyarrow.compute as pc

    for name in numbers:
        cells, found = batch.column(name), read.column(name)
        if found.null_count > cells.null_count:
            lost = pc.and_(pc.is_valid(cells), pc.is_null(found))
            return f"{name} is {cells.filter(lost)[0].as_py()[:60]!r}, which is not a number"
    return ""


def _as_numbers(batch: Any, numbers: Sequence[str], where: str, lenient: bool) -> Any:
    """The batch with `numbers` as float64; float32 keeps the short decimal that it stands for."""
    import pyarrow as pa

    if lenient:
        batch = _lenient(batch, numbers)
    for name in numbers:
        index = batch.schema.get_field_index(name)
        column = batch.column(index)
        if column.type == pa.float64():
            continue
        if pa.types.is_integer(column.type):
            batch = batch.set_column(index, name, floats(column))
            continue
        import pyarrow.compute as pc

        try:
            if column.type == pa.float32():
                # 1.1 stored in 32 bits is 1.10000002384: its shortest decimal is what was meant.
                column = pc.cast(column, pa.string())
            number = pc.cast(column, pa.float64(), safe=False)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise DataError(f"{where}: column {name!r} does not hold numbers: {error}") from None
        batch = batch.set_column(index, name, number)
    return batch
