-- by keys, operands ('{"paid","sent"}', '0', '100')
select t0."id"::text,
  (select row_to_json(d.*) from (select
    t0."id" as "id",
    lower(btrim(t0."name"::text)) as "name",
    coalesce(to_json(t0."email"), '"none"'::json) as "email",
    case when t0."created" >= '0001-01-01 00:00:00+00' and t0."created" < '10000-01-01 00:00:00+00' then replace((t0."created" at time zone 'UTC')::text, ' ', 'T') || 'Z' end as "created",
    case when t0."score" between '-1.7976931348623157e308' and '1.7976931348623157e308' then t0."score" end as "score",
    (select row_to_json(d.*) from (select
      replace(encode(t0."avatar", 'base64'), chr(10), '') as "bytes") as d) as "picture",
    (select row_to_json(d.*) from (select
      t1."name" as "name"
      from "public"."countries" as t1
      where t1."code" = t0."country") as d) as "country",
    array(select row_to_json(d.*) from (select
      case when t2."total" between '-1.7976931348623157e308' and '1.7976931348623157e308' then case when scale(t2."total") > 680 then to_json(t2."total"::text) else to_json(t2."total") end end as "total",
      array(select row_to_json(d.*) from (select
        t3."sku" as "sku"
        from (select * from "public"."items" where (qty > 0
)) as t3
        where t3."order_id" = t2."id"
        order by t3."id") as d) as "items"
      from "public"."orders" as t2
      where t2."user_id" = t0."id" and t2."status" = any($2::text[])
      order by (select t2."placed") desc nulls last, t2."id"
      limit 10) as d) as "orders",
    (select row_to_json(d.*) from (select
      case when t4."placed" >= '0001-01-01' and t4."placed" < '10000-01-01' then t4."placed" end as "placed"
      from "public"."orders" as t4
      where t4."user_id" = t0."id"
      order by (select t4."placed"), t4."id"
      limit 1) as d) as "last",
    array(select row_to_json(d.*) from (select
      t5."label" as "label"
      from "public"."user_tags" as t6 join "public"."tags" as t5 on t5."id" = t6."tag_id"
      where t6."user_id" = t0."id"
      order by t5."id") as d) as "tags",
    (select count(*)
      from "public"."orders" as t7
      where t7."user_id" = t0."id") as "order_count",
    (select case when s.v between '-1.7976931348623157e308' and '1.7976931348623157e308' then case when scale(s.v) > 680 then to_json(s.v::text) else to_json(s.v) end end from (select sum(t8."total") as v
      from "public"."orders" as t8
      where t8."user_id" = t0."id") as s) as "spent") as d)
from "public"."users" as t0
where t0."id" = any($1::text[]::int8[]) and (t0."score" >= $3::float8 and t0."score" <= $4::float8) and (t0."gone") is not true;

-- by range
select t0."id"::text,
  (select row_to_json(d.*) from (select
    t0."id" as "id",
    lower(btrim(t0."name"::text)) as "name",
    coalesce(to_json(t0."email"), '"none"'::json) as "email",
    case when t0."created" >= '0001-01-01 00:00:00+00' and t0."created" < '10000-01-01 00:00:00+00' then replace((t0."created" at time zone 'UTC')::text, ' ', 'T') || 'Z' end as "created",
    case when t0."score" between '-1.7976931348623157e308' and '1.7976931348623157e308' then t0."score" end as "score",
    (select row_to_json(d.*) from (select
      replace(encode(t0."avatar", 'base64'), chr(10), '') as "bytes") as d) as "picture",
    (select row_to_json(d.*) from (select
      t1."name" as "name"
      from "public"."countries" as t1
      where t1."code" = t0."country") as d) as "country",
    array(select row_to_json(d.*) from (select
      case when t2."total" between '-1.7976931348623157e308' and '1.7976931348623157e308' then case when scale(t2."total") > 680 then to_json(t2."total"::text) else to_json(t2."total") end end as "total",
      array(select row_to_json(d.*) from (select
        t3."sku" as "sku"
        from (select * from "public"."items" where (qty > 0
)) as t3
        where t3."order_id" = t2."id"
        order by t3."id") as d) as "items"
      from "public"."orders" as t2
      where t2."user_id" = t0."id" and t2."status" = any('{"paid","sent"}'::text[])
      order by (select t2."placed") desc nulls last, t2."id"
      limit 10) as d) as "orders",
    (select row_to_json(d.*) from (select
      case when t4."placed" >= '0001-01-01' and t4."placed" < '10000-01-01' then t4."placed" end as "placed"
      from "public"."orders" as t4
      where t4."user_id" = t0."id"
      order by (select t4."placed"), t4."id"
      limit 1) as d) as "last",
    array(select row_to_json(d.*) from (select
      t5."label" as "label"
      from "public"."user_tags" as t6 join "public"."tags" as t5 on t5."id" = t6."tag_id"
      where t6."user_id" = t0."id"
      order by t5."id") as d) as "tags",
    (select count(*)
      from "public"."orders" as t7
      where t7."user_id" = t0."id") as "order_count",
    (select case when s.v between '-1.7976931348623157e308' and '1.7976931348623157e308' then case when scale(s.v) > 680 then to_json(s.v::text) else to_json(s.v) end end from (select sum(t8."total") as v
      from "public"."orders" as t8
      where t8."user_id" = t0."id") as s) as "spent") as d)
from "public"."users" as t0
where t0.ctid >= '(0,0)'::tid and t0.ctid < '(9,0)'::tid and (t0."score" >= '0'::float8 and t0."score" <= '100'::float8) and (t0."gone") is not true;

-- public.users ('id',) at the root

-- public.countries ('code',) at country
select t."id"::text
from "public"."users" as t
where t."country" = any($1::text[]::text[]);

-- public.orders ('user_id',) at orders

-- public.items ('order_id',) at orders.items
select distinct t."user_id"::text
from "public"."orders" as t
where t."id" = any($1::text[]::int8[]);

-- public.orders ('user_id',) at last

-- public.user_tags ('user_id',) at tags

-- public.tags ('id',) at tags
select distinct t."user_id"::text
from "public"."user_tags" as t
where t."tag_id" = any($1::text[]::int8[]);

-- public.orders ('user_id',) at order_count

-- public.orders ('user_id',) at spent
