-- Names, types and keys that few databases have all at once, for what `flusso init` makes of them.
create schema "Sales Dept";
create type "Sales Dept"."Mood" as enum ('sad', 'so-so', '1', 'true', 'it''s "fine"');
create domain email as text check (value ~ '@');
create table "Sales Dept"."Region" (country text, "code.nr" int, name text, primary key ("code.nr", country));
create table "Sales Dept"."order" (
  "group" int, "select" text, region_code int, region_country text, "Mood" "Sales Dept"."Mood",
  moods "Sales Dept"."Mood"[], mail email, boss_group int, boss_select text,
  "strange ""name""" text, "line
break" text, ключ text, _id text, "password_hash" text, doc tsvector, span int4range, place point,
  clock time, spell interval, ip inet, cash money, raw bytea, extra jsonb, bits bit(3), gps box,
  updated timestamptz, deleted_at timestamptz, shape xml, small smallint[], "Ünïcödé 😀" text,
  primary key ("group", "select"),
  foreign key (region_country, region_code) references "Sales Dept"."Region" (country, "code.nr"),
  foreign key (boss_group, boss_select) references "Sales Dept"."order"
);
create table "Sales Dept".line (
  id bigint primary key, g int, s text, item uuid,
  foreign key (g, s) references "Sales Dept"."order"
);
create table item (id uuid primary key, sku text unique, title text);
alter table "Sales Dept".line add foreign key (item) references item;
create table "Sales Dept".invoice (
  order_group int, order_select text, number text, primary key (order_group, order_select),
  foreign key (order_group, order_select) references "Sales Dept"."order"
);
create table "Sales Dept"."order item" (
  g int, s text, sku text references item (sku), item uuid references item, created_at timestamptz,
  primary key (g, s, item), foreign key (g, s) references "Sales Dept"."order"
);
create table label (id int primary key, name text);
create table "Sales Dept".order_label (
  g int, s text, label_id int references label, created_at timestamptz default now(),
  primary key (label_id, g, s), foreign key (g, s) references "Sales Dept"."order"
);
create table "Sales Dept".follows (
  follower_g int, follower_s text, followed_g int, followed_s text,
  primary key (follower_g, follower_s, followed_g, followed_s),
  foreign key (follower_g, follower_s) references "Sales Dept"."order",
  foreign key (followed_g, followed_s) references "Sales Dept"."order"
);
create table without_key (a int, g int, s text, foreign key (g, s) references "Sales Dept"."order");
create view a_view as select 1 as one;
create table cat (id int primary key, best_friend int);
create table dog (id int primary key, best_friend int references cat);
alter table cat add foreign key (best_friend) references dog;

insert into "Sales Dept"."Region" values ('IT', 7, 'Lazio');
insert into "Sales Dept"."order" ("group", "select", region_code, region_country, "Mood", moods, place,
  "line
break", ключ) values (1, 'a|b', 7, 'IT', 'so-so', '{sad,"1"}', '(1,2)', 'x', 'я');
insert into item values ('00000000-0000-0000-0000-000000000001', 'S', 'Spoon');
insert into "Sales Dept".line values (5, 1, 'a|b', '00000000-0000-0000-0000-000000000001');
insert into "Sales Dept".invoice values (1, 'a|b', 'R1');
insert into label values (3, 'red');
insert into "Sales Dept".order_label values (1, 'a|b', 3);
