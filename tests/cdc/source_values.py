"""Columns of every type of MySQL and MariaDB, each with its values as literals of SQL."""

from __future__ import annotations

import json

from tests.cdc.test_source_logs import JSON_VALUES
from tests.cdc.test_source_types import BYTES, INTEGERS, REALS, STRINGS, TIMES, WORDS

Columns = dict[str, list[str]]

FLOATS = [
    "0.1", "16777217", "-0e0", "0e0", "3.4028234663852886e38", "-3.4028234663852886e38",
    "1.17549435e-38", "1e-45", "-1.5e-42", "123456.7", "1e10", "9999999", "1e-6", "2.5e-15",
]  # fmt: skip
DOUBLES = [
    *FLOATS, "0.1e0", "4.9e-324", "-2.2250738585072014e-308", "1.7976931348623157e308", "1e15",
    "999999999999999", "1234567890123456", "9007199254740993", "1e-15", "9.9e-16", "1.5e-5",
    "-12345678901.25", "0.30000000000000004", "100", "1e14", "123456789012345.6e0",
]  # fmt: skip
ROUNDED = ["0.07", "-1.005", "123.4567", "0.1", "29.29", "-0e0"]
NUMBERS: Columns = {
    **INTEGERS,
    "tinyint(1)": ["0", "1", "-7", "127", "-128"],
    "tinyint(1) unsigned": ["0", "1", "255"],
    "int(7) zerofill": ["0", "42", "4294967295"],
    "bigint(20) unsigned zerofill": ["0", "9223372036854775807"],
    "bigint unsigned": ["18446744073709551615", "0", "9223372036854775808"],
    **{f"bit({bits})": [f"{2**bits - 1}", f"{2 ** (bits - 1)}", "0", "1"] for bits in range(1, 65)},
}
FRACTIONS: Columns = {
    **REALS,
    "decimal(8,2) zerofill": ["3.5", "0", "999999.99"],
    "decimal(30,30)": ["-0.000000000000000000000000000001", "0", "0.1"],
    "decimal(65,30) unsigned": ["0", "1"],
    "decimal(5,2)": ["-0.00", "-0.01", "0"],
    "decimal(38,0)": ["-" + "9" * 38, "0"],
    "float": FLOATS,
    "float unsigned": FLOATS,
    "float(7,4)": ROUNDED,
    "float zerofill": FLOATS,
    "double": DOUBLES,
    "double(10,2)": ROUNDED,
    "double(20,7) zerofill": ROUNDED,
    "real unsigned": DOUBLES,
}
SHAPES = [
    "ST_GeomFromText('POINT(1 2)', 4326)", "ST_GeomFromText('MULTIPOINT(1 1, 2 2)')",
    "ST_GeomFromText('POLYGON((0 0, 0 1, 1 1, 0 0))')", "ST_GeomFromText('MULTIPOINT(0 0)', 3857)",
    "ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 1), LINESTRING(0 0, 1 1))')",
]  # fmt: skip
GEOMETRIES: Columns = {
    "geometry not null default (point(7, 8))": SHAPES,
    "geometrycollection": SHAPES[-1:],
    "multipoint": SHAPES[1:2],
}
DAYS = ["'0000-05-01'", "'0001-01-01'", "'2026-02-31'", "'0999-12-31'", "'2000-02-29'"]
INSTANTS: Columns = {
    **TIMES,
    "date": [*TIMES["date"], *DAYS, "'1969-12-31'"],
    "time": ["'-838:59:59'", "'838:59:59'", "'24:00:00'", "'23:59:59'", "'-00:00:01'", "'0'"],
    "time(3)": ["'23:59:59.999'", "'24:00:00.000'", "'-00:00:00.001'", "'00:00:00'"],
    "time(6)": ["'838:59:59.999999'", "'838:59:58.999999'", "'-838:59:58.9'", "'-00:00:00.000001'"],
    "datetime": [*(f"{day[:-1]} 23:59:59'" for day in DAYS), "'1969-12-31 23:59:59'"],
    "datetime(6)": [*(f"{day[:-1]} 00:00:00.000001'" for day in DAYS), "'0000-00-00'"],
    "timestamp(6) not null default '2020-01-01'": ["'1970-01-02 00:00:00.000001'", "0"],
    "timestamp null": ["'1970-01-01 00:00:01'", "0", "'2038-01-19 03:14:07'"],
    "year": ["0", "1901", "2155", "'0'", "'00'", "69"],
}
MORE_STRINGS: Columns = {
    f"char(30) character set {charset}": [*WORDS[:4], "'😀日本'", "'ä ß é ¥ € ½'", "'漢字かな  '"]
    for charset in (
        "ascii", "big5", "cp1250", "cp932", "dec8", "euckr", "greek", "hebrew", "hp8",
        "koi8r", "latin2", "latin5", "latin7", "macroman", "swe7", "tis620", "ucs2", "ujis",
        "utf16", "utf16le", "utf32", "utf8mb3", "utf8mb4",
    )
}  # fmt: skip
CHOICES: Columns = {
    "enum('ä','日本','') character set utf8mb4": ["'日本'", "'ä'", "''", "'wrong'"],
    "enum('ж','щ') character set cp1251": ["'щ'", "2", "0"],
    "enum('漢','字') character set gbk": ["'字'"],
    "enum('é') character set utf16": ["'é'"],
    "set('ä','日本','z') character set utf8mb4": ["'z,ä'", "''", "'日本'"],
    "set('','a') character set utf8mb4": ["1", "2", "3", "0"],
    "set('ж','щ') character set cp1251": ["'щ,ж'"],
    "enum('a','b') character set binary": ["'b'"],
    "char(0)": ["''"],
    "varchar(100) invisible": ["'not shown'", "''"],
    "json": ['\'{"a": [1, 2.5, "ü😀", null]}\'', "'[]'"],
}
GENERATED: Columns = {
    "varchar(60) generated always as (concat('row ', id, ' 漢')) virtual": [],
    "decimal(20,3) generated always as (id / 7) stored": [],
    "float generated always as (id / 3) virtual": [],
    "date generated always as ('2024-02-29' + interval id day) stored": [],
}
MARIADB: Columns = {
    "uuid": [
        "'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'",
        "'123e4567-e89b-12d3-a456-426614174000'", "'123e4567-e89b-42d3-a456-426614174000'",
        "'01890a5d-ac96-774b-bcce-b302099a8057'",
    ],
    "inet4": ["'0.0.0.0'", "'255.255.255.255'", "'1.20.100.9'"],
    "inet6": [
        "'::'", "'::1'", "'::ffff:1.2.3.4'", "'::1.20.100.9'", "'1:0:2:3:4:5:6:7'",
        "'1:2:3:4:5:6:7:0'", "'0:1:2:3:4:5:6:7'", "'fe80::1:0:0:1'", "'1:0:0:2:0:0:0:3'",
        "'abcd:ef01:2345:6789:abcd:ef01:2345:6789'", "'0:0:1::'", "'::fffe:1.2.3.4'", "'::1:0:0'",
    ],
    "varchar(200) compressed": [*WORDS, "REPEAT('😀', 200)"],
    "varchar(9000) compressed character set latin1": ["REPEAT('ä', 9000)", "''", "'a'"],
    "tinytext compressed": ["REPEAT('a', 255)", "''"],
    "text compressed character set utf16": ["REPEAT('日本', 900)", "'é'"],
    "mediumtext compressed": ["REPEAT('ab', 40000)"],
}  # fmt: skip
MARIADB_BYTES: Columns = {
    "varbinary(300) compressed": ["REPEAT(x'ff00', 150)", "x'00'", "x''"],
    "blob compressed": ["REPEAT(x'8000', 900)", "x''", "x'80'"],
    "longblob compressed": ["REPEAT(x'00ff', 40000)"],
}
LARGE_JSON = json.dumps([{"k": n, "v": [n / 7, str(n), n * 100_000]} for n in range(1800)])
MYSQL: Columns = {
    "json": [*JSON_VALUES, f"'{LARGE_JSON}'"],
    "char(30) character set gb18030": ["'😀日本'", "'漢字かな  '"],
}
FAMILIES: dict[str, Columns] = {
    "numbers": NUMBERS,
    "fractions": FRACTIONS,
    "instants": INSTANTS,
    "strings": {**STRINGS, **MORE_STRINGS},
    "choices": CHOICES,
    "bytes": {**BYTES, **GEOMETRIES},
    "generated": GENERATED,
    "mariadb": MARIADB,
    "mariadb bytes": MARIADB_BYTES,
    "mysql": MYSQL,
}
