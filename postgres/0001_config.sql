-- The configuration: one log of changes. Every node applies it to its own database, in the same order.
create table tollgate.config_head (
  one boolean primary key default true check (one),
  -- Of this cluster, for ever.
  generation uuid not null,
  -- The newest entry; before the first, 0 and the generation.
  seq bigint not null,
  last uuid not null,
  -- Tells the key that encrypts credentials from others; it can't be derived from this.
  secret text not null
);

create table tollgate.config_log (
  seq bigint primary key,
  id uuid not null unique,
  node text not null,
  format int not null,
  -- JSON.
  entry text not null,
  at_ms bigint not null default tollgate.now_ms()
);

-- All rows of the configuration after an entry, for nodes that lack entries which the log no longer has.
create table tollgate.config_snapshots (
  seq bigint not null,
  part int not null,
  -- Of the entry.
  id uuid not null,
  schema text not null,
  -- JSON: table, columns, rows.
  rows text not null,
  at_ms bigint not null default tollgate.now_ms(),
  primary key (seq, part)
);

-- The number of the entry, also if it was committed before; null if the one that it was decided after is not the newest.
create function tollgate.config_commit(
  p_generation uuid, p_seq bigint, p_last uuid, p_id uuid, p_node text, p_format int, p_entry text
) returns bigint language plpgsql as $$
declare
  head tollgate.config_head;
  done bigint;
begin
  -- A standby that takes over must have it.
  if current_setting('synchronous_commit') in ('off', 'local', 'remote_write') then
    perform set_config('synchronous_commit', 'on', true);
  end if;
  perform set_config('lock_timeout', '2s', true);
  select * into head from tollgate.config_head for update;
  select seq into done from tollgate.config_log where id = p_id;
  if found then
    return done;
  end if;
  if head.generation is distinct from p_generation or head.seq <> p_seq or head.last <> p_last then
    return null;
  end if;
  insert into tollgate.config_log (seq, id, node, format, entry) values (p_seq + 1, p_id, p_node, p_format, p_entry);
  update tollgate.config_head set seq = p_seq + 1, last = p_id;
  perform pg_notify('tollgate_config', (p_seq + 1)::text);
  return p_seq + 1;
end $$;

-- What the steps of a sign-in leave for the next one. Times are those of the nodes' clocks.
create table tollgate.sign_in_notes (
  kind text not null,
  name text not null,
  network text not null,
  text text not null,
  ends_ms bigint not null,
  primary key (kind, name)
);
create index sign_in_notes_network on tollgate.sign_in_notes (kind, network, ends_ms);
create index sign_in_notes_ends on tollgate.sign_in_notes (kind, ends_ms);

-- Failed sign-ins, and those under way. Names are hashes: people type all kinds of things.
create table tollgate.sign_in_failures (
  name text not null,
  at_ms bigint not null
);
create index sign_in_failures_name on tollgate.sign_in_failures (name, at_ms);
create index sign_in_failures_at on tollgate.sign_in_failures (at_ms);

-- Counts one of each and returns 0, unless one has reached its maximum: then how long, ms.
create function tollgate.sign_in_begin(p_names text[], p_most int[], p_now bigint, p_window bigint, p_counts boolean)
returns bigint language plpgsql as $$
declare
  wait bigint := 0;
  decides bigint;
begin
  -- One at a time, on whatever node.
  perform pg_advisory_xact_lock(hashtextextended('tollgate sign-in ' || name, 0)) from unnest(p_names) as n (name) order by name;
  for i in 1 .. cardinality(p_names) loop
    select at_ms into decides from tollgate.sign_in_failures
      where name = p_names[i] and at_ms > p_now - p_window order by at_ms desc offset p_most[i] - 1 limit 1;
    if found then
      wait := greatest(wait, decides + p_window - p_now);
    end if;
  end loop;
  if wait > 0 or not p_counts then
    return wait;
  end if;
  delete from tollgate.sign_in_failures where at_ms <= p_now - p_window;
  insert into tollgate.sign_in_failures select name, p_now from unnest(p_names) as n (name);
  return 0;
end $$;
