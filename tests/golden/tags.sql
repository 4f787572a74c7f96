-- by keys, operands ('0', 'off', 'off', 'off')
select t0."id"::text,
  (select row_to_json(d.*) from (select
    E'{"a":"it''s \\\\ here","b":[1,null]}'::json as "origin",
    coalesce(to_json(case when t0."score" between '-1.7976931348623157e308' and '1.7976931348623157e308' then t0."score" end), '0.5'::json) as "score",
    (select row_to_json(p.*) from (select trim_scale(round(t0."lat", 15)) as lat, t0."lon" as lon) as p where p.lat between -90 and 90 and p.lon between -180 and 180) as "home",
    (select row_to_json(p.*) from (select trim_scale(round(t.m[1]::numeric, 15)) as lat, trim_scale(round(t.m[2]::numeric, 15)) as lon from (select regexp_match((select case jsonb_typeof(j.v) when 'string' then regexp_replace(j.v #>> '{}', '^ *point *[(] *([-+]?(?:[0-9]{1,30}[.]?[0-9]{0,60}|[.][0-9]{1,60})(?:[eE][-+]?[0-9]{1,3})?) +([-+]?(?:[0-9]{1,30}[.]?[0-9]{0,60}|[.][0-9]{1,60})(?:[eE][-+]?[0-9]{1,3})?) *[)] *$', E'\\2,\\1', 'i') when 'array' then (j.v ->> 1) || ',' || (j.v ->> 0) when 'object' then coalesce((j.v ->> 'lat') || ',' || (j.v ->> 'lon'), (j.v #>> '{coordinates,1}') || ',' || (j.v #>> '{coordinates,0}')) end from (select case when regexp_replace(t0."work"::text, E'\\\\\\\\|\\\\u[dD][89abAB][0-9a-fA-F]{2}\\\\u[dD][c-fC-F][0-9a-fA-F]{2}', '', 'g') !~ E'\\\\u(0000|[dD][89a-fA-F])' and regexp_replace(t0."work"::text, E'"([^"\\\\]|\\\\.)*"', '', 'g') !~ '[eE][-+]?[0-9]{4}|([0-9]{250}){8}' then t0."work"::jsonb end as v) as j), '^ *([-+]?(?:[0-9]{1,30}[.]?[0-9]{0,60}|[.][0-9]{1,60})(?:[eE][-+]?[0-9]{1,3})?) *, *([-+]?(?:[0-9]{1,30}[.]?[0-9]{0,60}|[.][0-9]{1,60})(?:[eE][-+]?[0-9]{1,3})?) *$') as m) as t) as p where p.lat between -90 and 90 and p.lon between -180 and 180) as "work",
    (select row_to_json(p.*) from (select t0."spot"[1] as lat, t0."spot"[0] as lon) as p where p.lat between -90 and 90 and p.lon between -180 and 180) as "spot",
    (select row_to_json(p.*) from (select trim_scale(round(t.m[1]::numeric, 15)) as lat, trim_scale(round(t.m[2]::numeric, 15)) as lon from (select regexp_match(regexp_replace(t0."name"::text, '^ *point *[(] *([-+]?(?:[0-9]{1,30}[.]?[0-9]{0,60}|[.][0-9]{1,60})(?:[eE][-+]?[0-9]{1,3})?) +([-+]?(?:[0-9]{1,30}[.]?[0-9]{0,60}|[.][0-9]{1,60})(?:[eE][-+]?[0-9]{1,3})?) *[)] *$', E'\\2,\\1', 'i'), '^ *([-+]?(?:[0-9]{1,30}[.]?[0-9]{0,60}|[.][0-9]{1,60})(?:[eE][-+]?[0-9]{1,3})?) *, *([-+]?(?:[0-9]{1,30}[.]?[0-9]{0,60}|[.][0-9]{1,60})(?:[eE][-+]?[0-9]{1,3})?) *$') as m) as t) as p where p.lat between -90 and 90 and p.lon between -180 and 180) as "text",
    (select (select ('{' || coalesce(string_agg(to_json(e.key)::text || ':' || case jsonb_typeof(e.value) when 'array' then (select '[' || coalesce(string_agg(case jsonb_typeof(i.v) when 'array' then 'null' when 'object' then 'null' when 'number' then case when length(i.v::text) <= 400 then i.v::text else 'null' end when 'boolean' then i.v::text when 'string' then i.v::text else 'null' end, ',' order by i.n), '') || ']' from jsonb_array_elements(e.value) with ordinality as i(v, n)) when 'object' then 'null' when 'number' then case when length(e.value::text) <= 400 then e.value::text else 'null' end when 'boolean' then e.value::text when 'string' then e.value::text else 'null' end, ',' order by e.key collate "C"), '') || '}')::json from jsonb_each(m.j) as e where btrim(e.key) <> '' and strpos(e.key, '.') = 0 and octet_length(convert_to(e.key, 'UTF8')) <= 512) from (select t0."titles" as j) as m where jsonb_typeof(m.j) = 'object') as "titles",
    (select (select ('{' || coalesce(string_agg(to_json(e.key)::text || ':' || case jsonb_typeof(e.value) when 'array' then (select '[' || coalesce(string_agg(case jsonb_typeof(i.v) when 'array' then 'null' when 'object' then 'null' when 'number' then case when length(i.v::text) <= 400 then i.v::text else 'null' end when 'boolean' then 'null' when 'string' then case when length(i.v::text) <= 400 then i.v::text else 'null' end else 'null' end, ',' order by i.n), '') || ']' from jsonb_array_elements(e.value) with ordinality as i(v, n)) when 'object' then 'null' when 'number' then case when length(e.value::text) <= 400 then e.value::text else 'null' end when 'boolean' then 'null' when 'string' then case when length(e.value::text) <= 400 then e.value::text else 'null' end else 'null' end, ',' order by e.key collate "C"), '') || '}')::json from jsonb_each(m.j) as e where btrim(e.key) <> '' and strpos(e.key, '.') = 0 and octet_length(convert_to(e.key, 'UTF8')) <= 512) from (select case when regexp_replace(t0."marks"::text, E'\\\\\\\\|\\\\u[dD][89abAB][0-9a-fA-F]{2}\\\\u[dD][c-fC-F][0-9a-fA-F]{2}', '', 'g') !~ E'\\\\u(0000|[dD][89a-fA-F])' and regexp_replace(t0."marks"::text, E'"([^"\\\\]|\\\\.)*"', '', 'g') !~ '[eE][-+]?[0-9]{4}|([0-9]{250}){8}' then t0."marks"::jsonb end as j) as m where jsonb_typeof(m.j) = 'object') as "marks",
    t0."country" as "level",
    (select row_to_json(d.*) from (select
      t1."name" as "name"
      from "public"."countries" as t1
      where t1."code" = t0."country" and (t1."name" is not null) is not true) as d) as "country",
    (select case when s.v between '-1.7976931348623157e308' and '1.7976931348623157e308' then case when scale(s.v) > 680 then to_json(s.v::text) else to_json(s.v) end end from (select trim_scale(avg(t2."total")) as v
      from "public"."orders" as t2
      where t2."user_id" = t0."id") as s) as "mean",
    (select case when t3."placed" >= '0001-01-01' and t3."placed" < '10000-01-01' then t3."placed" end
      from "public"."orders" as t3
      where t3."user_id" = t0."id" and t3."placed" is not null
      order by (select t3."placed"), t3."id"
      limit 1) as "first",
    (select t4."status"
      from (select * from "public"."orders" where "orders"."total" > $2::numeric and ("orders"."placed" is not null and (total = 0
)) is not true) as t4
      where t4."user_id" = t0."id" and t4."status" is not null
      order by (select t4."status") desc, t4."id"
      limit 1) as "last",
    array(select t5."id"
      from "public"."orders" as t5
      where t5."user_id" = t0."id"
      order by t5."id") as "order_ids",
    array(select replace(replace(t6."a"::text, E'\\', E'\\\\'), '|', E'\\|') || '|' || replace(replace(t6."b"::text, E'\\', E'\\\\'), '|', E'\\|')
      from "public"."pairs" as t6
      where t6."user_id" = t0."id"
      order by t6."a", t6."b") as "pair_ids",
    array(select t7."id"
      from "public"."tags" as t7
      where exists (select from "public"."user_tags" as t8 where t7."id" = t8."tag_id" and t8."user_id" = t0."id" and t8."state" <> $3::text)
      order by t7."id") as "tag_ids",
    (select count(*)
      from "public"."user_tags" as t10 join "public"."tags" as t9 on t9."id" = t10."tag_id"
      where t10."user_id" = t0."id" and t10."state" <> $4::text) as "tag_count",
    array(select row_to_json(d.*) from (select
      t11."label" as "label"
      from "public"."user_tags" as t12 join "public"."tags" as t11 on t11."id" = t12."tag_id"
      where t12."user_id" = t0."id" and t12."state" <> $5::text
      order by t11."id") as d) as "tags") as d)
from "public"."users" as t0
where t0."id" = any($1::text[]::int8[]);

-- by range
select t0."id"::text,
  (select row_to_json(d.*) from (select
    E'{"a":"it''s \\\\ here","b":[1,null]}'::json as "origin",
    coalesce(to_json(case when t0."score" between '-1.7976931348623157e308' and '1.7976931348623157e308' then t0."score" end), '0.5'::json) as "score",
    (select row_to_json(p.*) from (select trim_scale(round(t0."lat", 15)) as lat, t0."lon" as lon) as p where p.lat between -90 and 90 and p.lon between -180 and 180) as "home",
    (select row_to_json(p.*) from (select trim_scale(round(t.m[1]::numeric, 15)) as lat, trim_scale(round(t.m[2]::numeric, 15)) as lon from (select regexp_match((select case jsonb_typeof(j.v) when 'string' then regexp_replace(j.v #>> '{}', '^ *point *[(] *([-+]?(?:[0-9]{1,30}[.]?[0-9]{0,60}|[.][0-9]{1,60})(?:[eE][-+]?[0-9]{1,3})?) +([-+]?(?:[0-9]{1,30}[.]?[0-9]{0,60}|[.][0-9]{1,60})(?:[eE][-+]?[0-9]{1,3})?) *[)] *$', E'\\2,\\1', 'i') when 'array' then (j.v ->> 1) || ',' || (j.v ->> 0) when 'object' then coalesce((j.v ->> 'lat') || ',' || (j.v ->> 'lon'), (j.v #>> '{coordinates,1}') || ',' || (j.v #>> '{coordinates,0}')) end from (select case when regexp_replace(t0."work"::text, E'\\\\\\\\|\\\\u[dD][89abAB][0-9a-fA-F]{2}\\\\u[dD][c-fC-F][0-9a-fA-F]{2}', '', 'g') !~ E'\\\\u(0000|[dD][89a-fA-F])' and regexp_replace(t0."work"::text, E'"([^"\\\\]|\\\\.)*"', '', 'g') !~ '[eE][-+]?[0-9]{4}|([0-9]{250}){8}' then t0."work"::jsonb end as v) as j), '^ *([-+]?(?:[0-9]{1,30}[.]?[0-9]{0,60}|[.][0-9]{1,60})(?:[eE][-+]?[0-9]{1,3})?) *, *([-+]?(?:[0-9]{1,30}[.]?[0-9]{0,60}|[.][0-9]{1,60})(?:[eE][-+]?[0-9]{1,3})?) *$') as m) as t) as p where p.lat between -90 and 90 and p.lon between -180 and 180) as "work",
    (select row_to_json(p.*) from (select t0."spot"[1] as lat, t0."spot"[0] as lon) as p where p.lat between -90 and 90 and p.lon between -180 and 180) as "spot",
    (select row_to_json(p.*) from (select trim_scale(round(t.m[1]::numeric, 15)) as lat, trim_scale(round(t.m[2]::numeric, 15)) as lon from (select regexp_match(regexp_replace(t0."name"::text, '^ *point *[(] *([-+]?(?:[0-9]{1,30}[.]?[0-9]{0,60}|[.][0-9]{1,60})(?:[eE][-+]?[0-9]{1,3})?) +([-+]?(?:[0-9]{1,30}[.]?[0-9]{0,60}|[.][0-9]{1,60})(?:[eE][-+]?[0-9]{1,3})?) *[)] *$', E'\\2,\\1', 'i'), '^ *([-+]?(?:[0-9]{1,30}[.]?[0-9]{0,60}|[.][0-9]{1,60})(?:[eE][-+]?[0-9]{1,3})?) *, *([-+]?(?:[0-9]{1,30}[.]?[0-9]{0,60}|[.][0-9]{1,60})(?:[eE][-+]?[0-9]{1,3})?) *$') as m) as t) as p where p.lat between -90 and 90 and p.lon between -180 and 180) as "text",
    (select (select ('{' || coalesce(string_agg(to_json(e.key)::text || ':' || case jsonb_typeof(e.value) when 'array' then (select '[' || coalesce(string_agg(case jsonb_typeof(i.v) when 'array' then 'null' when 'object' then 'null' when 'number' then case when length(i.v::text) <= 400 then i.v::text else 'null' end when 'boolean' then i.v::text when 'string' then i.v::text else 'null' end, ',' order by i.n), '') || ']' from jsonb_array_elements(e.value) with ordinality as i(v, n)) when 'object' then 'null' when 'number' then case when length(e.value::text) <= 400 then e.value::text else 'null' end when 'boolean' then e.value::text when 'string' then e.value::text else 'null' end, ',' order by e.key collate "C"), '') || '}')::json from jsonb_each(m.j) as e where btrim(e.key) <> '' and strpos(e.key, '.') = 0 and octet_length(convert_to(e.key, 'UTF8')) <= 512) from (select t0."titles" as j) as m where jsonb_typeof(m.j) = 'object') as "titles",
    (select (select ('{' || coalesce(string_agg(to_json(e.key)::text || ':' || case jsonb_typeof(e.value) when 'array' then (select '[' || coalesce(string_agg(case jsonb_typeof(i.v) when 'array' then 'null' when 'object' then 'null' when 'number' then case when length(i.v::text) <= 400 then i.v::text else 'null' end when 'boolean' then 'null' when 'string' then case when length(i.v::text) <= 400 then i.v::text else 'null' end else 'null' end, ',' order by i.n), '') || ']' from jsonb_array_elements(e.value) with ordinality as i(v, n)) when 'object' then 'null' when 'number' then case when length(e.value::text) <= 400 then e.value::text else 'null' end when 'boolean' then 'null' when 'string' then case when length(e.value::text) <= 400 then e.value::text else 'null' end else 'null' end, ',' order by e.key collate "C"), '') || '}')::json from jsonb_each(m.j) as e where btrim(e.key) <> '' and strpos(e.key, '.') = 0 and octet_length(convert_to(e.key, 'UTF8')) <= 512) from (select case when regexp_replace(t0."marks"::text, E'\\\\\\\\|\\\\u[dD][89abAB][0-9a-fA-F]{2}\\\\u[dD][c-fC-F][0-9a-fA-F]{2}', '', 'g') !~ E'\\\\u(0000|[dD][89a-fA-F])' and regexp_replace(t0."marks"::text, E'"([^"\\\\]|\\\\.)*"', '', 'g') !~ '[eE][-+]?[0-9]{4}|([0-9]{250}){8}' then t0."marks"::jsonb end as j) as m where jsonb_typeof(m.j) = 'object') as "marks",
    t0."country" as "level",
    (select row_to_json(d.*) from (select
      t1."name" as "name"
      from "public"."countries" as t1
      where t1."code" = t0."country" and (t1."name" is not null) is not true) as d) as "country",
    (select case when s.v between '-1.7976931348623157e308' and '1.7976931348623157e308' then case when scale(s.v) > 680 then to_json(s.v::text) else to_json(s.v) end end from (select trim_scale(avg(t2."total")) as v
      from "public"."orders" as t2
      where t2."user_id" = t0."id") as s) as "mean",
    (select case when t3."placed" >= '0001-01-01' and t3."placed" < '10000-01-01' then t3."placed" end
      from "public"."orders" as t3
      where t3."user_id" = t0."id" and t3."placed" is not null
      order by (select t3."placed"), t3."id"
      limit 1) as "first",
    (select t4."status"
      from (select * from "public"."orders" where "orders"."total" > '0'::numeric and ("orders"."placed" is not null and (total = 0
)) is not true) as t4
      where t4."user_id" = t0."id" and t4."status" is not null
      order by (select t4."status") desc, t4."id"
      limit 1) as "last",
    array(select t5."id"
      from "public"."orders" as t5
      where t5."user_id" = t0."id"
      order by t5."id") as "order_ids",
    array(select replace(replace(t6."a"::text, E'\\', E'\\\\'), '|', E'\\|') || '|' || replace(replace(t6."b"::text, E'\\', E'\\\\'), '|', E'\\|')
      from "public"."pairs" as t6
      where t6."user_id" = t0."id"
      order by t6."a", t6."b") as "pair_ids",
    array(select t7."id"
      from "public"."tags" as t7
      where exists (select from "public"."user_tags" as t8 where t7."id" = t8."tag_id" and t8."user_id" = t0."id" and t8."state" <> 'off'::text)
      order by t7."id") as "tag_ids",
    (select count(*)
      from "public"."user_tags" as t10 join "public"."tags" as t9 on t9."id" = t10."tag_id"
      where t10."user_id" = t0."id" and t10."state" <> 'off'::text) as "tag_count",
    array(select row_to_json(d.*) from (select
      t11."label" as "label"
      from "public"."user_tags" as t12 join "public"."tags" as t11 on t11."id" = t12."tag_id"
      where t12."user_id" = t0."id" and t12."state" <> 'off'::text
      order by t11."id") as d) as "tags") as d)
from "public"."users" as t0
where t0.ctid >= '(0,0)'::tid and t0.ctid < '(9,0)'::tid;

-- public.users ('id',) at the root

-- public.countries ('code',) at country
select t."id"::text
from "public"."users" as t
where t."country" = any($1::text[]::text[]);

-- public.orders ('user_id',) at mean

-- public.orders ('user_id',) at first

-- public.orders ('user_id',) at last

-- public.orders ('user_id',) at order_ids

-- public.pairs ('user_id',) at pair_ids

-- public.user_tags ('user_id',) at tag_ids

-- public.tags ('id',) at tag_ids
select distinct t."user_id"::text
from "public"."user_tags" as t
where t."tag_id" = any($1::text[]::int8[]);

-- public.user_tags ('user_id',) at tag_count

-- public.tags ('id',) at tag_count
select distinct t."user_id"::text
from "public"."user_tags" as t
where t."tag_id" = any($1::text[]::int8[]);

-- public.user_tags ('user_id',) at tags

-- public.tags ('id',) at tags
select distinct t."user_id"::text
from "public"."user_tags" as t
where t."tag_id" = any($1::text[]::int8[]);
