"""``${name}``: values of settings in the text of a statement, as Spark puts them in."""

from __future__ import annotations

import os
import re
from typing import Any

from pyspark.sql import SparkSession

from headwater.spark.session import is_connect, is_set
from headwater.storage.errors import Invalid, Unsupported

__all__ = ["with_settings"]

_ENABLED = "spark.sql.variable.substitute"
_VARIABLE = re.compile(r"\$\{(?:(\w+?):)?(\S+?)\}")
_SETTINGS = (None, "spark", "sparkconf", "hivevar", "hiveconf")


def with_settings(text: str, spark: SparkSession) -> str:
    """A text in which each ``${name}`` is the value of the setting, nothing without one.

    ``${env:name}`` is a variable of the environment, ``${system:name}`` a property of Spark's JVM.
    They stay as they are where there is none (``VariableSubstitution.scala``,
    ``ConfigReader.scala``).

    Raises:
        Invalid: A value names itself.
        Unsupported: A property of the JVM is named on Spark Connect.
    """
    if "${" not in text or not is_set(spark, _ENABLED):
        return text
    return _with_values(text, spark, ())


def _with_values(text: str, spark: SparkSession, around: tuple[str, ...]) -> str:
    def value(match: re.Match[str]) -> str:
        written = match[0]
        if written in around:
            raise Invalid(
                f"{written} names itself: {' -> '.join([*around, written])}; change the setting"
            )
        setting = _value(match[1], match[2], spark)
        if setting is None:
            return written
        return _with_values(setting, spark, (*around, written))

    return _VARIABLE.sub(value, text)


def _value(prefix: str | None, name: str, spark: SparkSession) -> str | None:
    if prefix in _SETTINGS:
        return spark.conf.get(name, None) or ""
    if prefix == "env":
        return os.environ.get(name)
    if prefix == "system":
        if is_connect(spark):
            raise Unsupported(
                f"${{system:{name}}} is a property of Spark's own process, which Spark Connect "
                "does not show; write its value"
            )
        java: Any = spark._jvm
        java_property = java.java.lang.System.getProperty(name)
        return None if java_property is None else str(java_property)
    return None
