-- by keys, operands ()
select t0."a"::text, t0."b"::text,
  (select row_to_json(d.*) from (select
    t0."b" as "b",
    (select row_to_json(d.*) from (select
      t1."name" as "name"
      from "public"."users" as t1
      where t1."id" = t0."user_id") as d) as "user") as d)
from "public"."pairs" as t0
where exists (select from (select k1::int8 as k1, k2::text as k2 from unnest($1::text[], $2::text[]) as k(k1, k2)) as k where t0."a" = k.k1 and t0."b" = k.k2);

-- by range
select t0."a"::text, t0."b"::text,
  (select row_to_json(d.*) from (select
    t0."b" as "b",
    (select row_to_json(d.*) from (select
      t1."name" as "name"
      from "public"."users" as t1
      where t1."id" = t0."user_id") as d) as "user") as d)
from "public"."pairs" as t0
where t0.ctid >= '(0,0)'::tid and t0.ctid < '(9,0)'::tid;

-- public.pairs ('a', 'b') at the root

-- public.users ('id',) at user
select t."a"::text, t."b"::text
from "public"."pairs" as t
where t."user_id" = any($1::text[]::int8[]);
