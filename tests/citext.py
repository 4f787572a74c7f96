"""A type like citext, made in SQL: the test servers come without the extension.

As with the extension, its operators lie in the schema that it was made in, and nowhere else.
"""

from __future__ import annotations

_COMPARISONS = {"<": 1, "<=": 2, "=": 3, ">=": 4, ">": 5, "<>": None}

CITEXT = (
    """
create type citext;
create function citextin(cstring) returns citext language internal immutable strict as 'textin';
create function citextout(citext) returns cstring language internal immutable strict as 'textout';
create type citext (input = citextin, output = citextout, like = text, collatable = true, category = 'S');
create cast (citext as text) without function as implicit;
create cast (text as citext) without function as assignment;
create function citext_cmp(citext, citext) returns int language sql immutable
  as 'select bttextcmp(lower($1::text), lower($2::text))';
"""
    + "".join(
        f"""
create function citext_{n}(citext, citext) returns boolean language sql immutable
  as 'select citext_cmp($1, $2) {sign} 0' set search_path from current;
create operator {sign} (leftarg = citext, rightarg = citext, function = citext_{n});
"""
        for n, sign in enumerate(_COMPARISONS)
    )
    + "create operator class citext_ops default for type citext using btree as "
    + ", ".join(f"operator {n} {sign}" for sign, n in _COMPARISONS.items() if n)
    + ", function 1 citext_cmp(citext, citext);\n"
)
