-- The ledger of all nodes: the tables and columns of a node's SQLite file, and the node of each request. Rows arrive
-- only by tollgate.ship_ledger. Texts sort by bytes, as in SQLite. IDs are UUIDv7, so a month is a range of them.

create function tollgate.first_id(ms bigint) returns uuid language sql immutable strict parallel safe as
$$ select (lpad(to_hex(least(greatest(ms, 0), 281474976710655)), 12, '0') || repeat('0', 20))::uuid $$;

-- What a request has, and each of its calls. Migrations add columns to both.
create table tollgate.outcome (
  upstream text collate "C" not null,
  upstream_model text collate "C" not null,
  lane text collate "C" not null default 'translated',
  price_id text collate "C",
  created_ms bigint not null,
  reserved_prompt_tokens bigint not null default 0,
  reserved_completion_tokens bigint not null default 0,
  reserved_nano_usd bigint not null default 0,
  status text collate "C" not null,
  http_status bigint,
  error_code text collate "C",
  duration_ms bigint,
  first_token_ms bigint,
  compute_ms bigint not null default 0,
  estimated bigint not null default 0,
  mode text collate "C",
  reported_nano_usd bigint,
  upstream_request_id text collate "C",
  credential bigint,
  -- Where counts are from.
  counted_by text collate "C"
);
-- What is counted of requests and calls, and summed.
create table tollgate.counts (
  prompt_tokens bigint not null default 0,
  cached_tokens bigint not null default 0,
  cache_write_tokens bigint not null default 0,
  cache_write_1h_tokens bigint not null default 0,
  completion_tokens bigint not null default 0,
  reasoning_tokens bigint not null default 0,
  audio_prompt_tokens bigint not null default 0,
  audio_completion_tokens bigint not null default 0,
  image_tokens bigint not null default 0,
  image_completion_tokens bigint not null default 0,
  tool_prompt_tokens bigint not null default 0,
  web_searches bigint not null default 0,
  audio_ms bigint not null default 0,
  characters bigint not null default 0,
  images bigint not null default 0,
  search_units bigint not null default 0,
  pages bigint not null default 0,
  unpriced bigint not null default 0,
  cost_nano_usd bigint not null default 0
);
-- Histograms: the count of each bucket, from bucket 0.
create table tollgate.sums (
  requests bigint not null default 0,
  errors bigint not null default 0,
  cuts bigint not null default 0,
  like tollgate.counts including defaults,
  estimated_cost_nano_usd bigint not null default 0,
  first_token_histogram bigint[] not null default '{}',
  duration_histogram bigint[] not null default '{}'
);

create table tollgate.requests (
  id uuid not null,
  instance text collate "C" not null,
  key_id text collate "C" not null,
  team_id text collate "C",
  model text collate "C" not null,
  endpoint text collate "C" not null default 'chat',
  stream bigint not null default 0,
  "user" text collate "C",
  like tollgate.outcome including defaults,
  like tollgate.counts including defaults,
  attempts bigint not null default 1,
  node text collate "C" not null,
  primary key (id)
) partition by range (id);
create index requests_open on tollgate.requests (node, instance) where status = 'open';
create index requests_unwell on tollgate.requests
  (created_ms, error_code, status, key_id, team_id, model, upstream) where status <> 'ok' and status <> 'open';

-- Of requests with several.
create table tollgate.calls (
  request_id uuid not null,
  number bigint not null,
  instance text collate "C" not null,
  reason text collate "C" not null,
  like tollgate.outcome including defaults,
  like tollgate.counts including defaults,
  primary key (request_id, number)
) partition by range (request_id);
create index calls_open on tollgate.calls (instance) where status = 'open';

-- For clocks that are far off, and months that nobody made.
create table tollgate.requests_default partition of tollgate.requests default;
create table tollgate.calls_default partition of tollgate.calls default;

create table tollgate.usage_hourly (
  hour_ms bigint not null,
  key_id text collate "C" not null,
  team_id text collate "C" not null default '',
  model text collate "C" not null,
  upstream text collate "C" not null,
  endpoint text collate "C" not null default 'chat',
  like tollgate.sums including defaults,
  primary key (hour_ms, key_id, team_id, model, upstream, endpoint)
) with (fillfactor = 70);
create index usage_hourly_key on tollgate.usage_hourly (key_id, hour_ms);
create index usage_hourly_team on tollgate.usage_hourly (team_id, hour_ms) where team_id <> '';

create table tollgate.usage_daily (
  dimension text collate "C" not null,
  day_ms bigint not null,
  value text collate "C" not null,
  like tollgate.sums including defaults,
  primary key (dimension, day_ms, value)
) with (fillfactor = 70);

drop table tollgate.outcome, tollgate.counts, tollgate.sums;

-- What each node counted, so that a count that arrives twice counts once.
create table tollgate.refusals_hourly (
  hour_ms bigint not null,
  key_id text collate "C" not null,
  team_id text collate "C" not null,
  code text collate "C" not null,
  refused bigint not null default 0,
  last_ms bigint not null,
  node text collate "C" not null,
  primary key (hour_ms, key_id, team_id, code, node)
) with (fillfactor = 70);
create index refusals_hourly_key on tollgate.refusals_hourly (key_id, last_ms, code);
create index refusals_hourly_team on tollgate.refusals_hourly (team_id, last_ms, code) where team_id <> '';

create table tollgate.key_uses (
  key_id text collate "C" primary key,
  last_used_ms bigint not null,
  last_model text collate "C" not null
) with (fillfactor = 70);

-- How far a node's outbox has arrived. The mark tells what its outbox has there, so that another history is noticed.
create table tollgate.ledger_cursors (
  node text collate "C" primary key,
  seq bigint not null default 0,
  mark text not null default '',
  shipped_ms bigint not null default 0
) with (fillfactor = 50);

-- One row. First time from which no request was removed; 0 if none ever was.
create table tollgate.ledger_state (
  is_only boolean primary key default true check (is_only),
  kept_from_ms bigint not null default 0
);
insert into tollgate.ledger_state default values;

-- Bucket b holds 2^(b/2) to 2^((b+1)/2) ms.
create function tollgate.bucket(ms bigint) returns integer language sql immutable strict parallel safe as $$
  select width_bucket(ms, '{
    2, 2, 3, 4, 6, 8, 12, 16, 23, 32, 46, 64, 91, 128, 182, 256, 363, 512, 725, 1024, 1449, 2048, 2897, 4096,
    5793, 8192, 11586, 16384, 23171, 32768, 46341, 65536, 92682, 131072, 185364, 262144, 370728, 524288, 741456,
    1048576, 1482911, 2097152, 2965821, 4194304, 5931642, 8388608, 11863284, 16777216, 23726567, 33554432,
    47453133, 67108864, 94906266, 134217728, 189812532, 268435456, 379625063, 536870912, 759250125, 1073741824,
    1518500250, 2147483648, 3037000500, 4294967296, 6074001000, 8589934592, 12148002000, 17179869184,
    24296004000, 34359738368, 48592008000, 68719476736, 97184016000, 137438953472, 194368031999, 274877906944,
    388736063997, 549755813888, 777472127994, 1099511627776, 1554944255988, 2199023255552, 3109888511976,
    4398046511104, 6219777023951, 8796093022208, 12439554047902, 17592186044416, 24879108095804, 35184372088832,
    49758216191608, 70368744177664, 99516432383216, 140737488355328, 199032864766431, 281474976710656,
    398065729532861, 562949953421312, 796131459065722, 1125899906842624, 1592262918131444, 2251799813685248,
    3184525836262887, 4503599627370496
  }'::bigint[])
$$;

create function tollgate.count_bucket(sum bigint[], bucket integer, by bigint) returns bigint[]
language plpgsql immutable parallel safe as $$
begin
  if bucket is null then return sum; end if;
  for i in cardinality(sum) + 1 .. bucket + 1 loop sum[i] := 0; end loop;
  sum[bucket + 1] := sum[bucket + 1] + by;
  return sum;
end $$;

create function tollgate.add_histogram(sum bigint[], more bigint[]) returns bigint[]
language plpgsql immutable parallel safe as $$
begin
  if cardinality(sum) = 0 then return more; end if;
  for i in cardinality(sum) + 1 .. cardinality(more) loop sum[i] := 0; end loop;
  for i in 1 .. cardinality(more) loop
    if more[i] <> 0 then sum[i] := sum[i] + more[i]; end if;
  end loop;
  return sum;
end $$;

create aggregate tollgate.histogram(bucket integer, by bigint) (
  sfunc = tollgate.count_bucket, stype = bigint[], initcond = '{}', parallel = safe,
  combinefunc = tollgate.add_histogram
);
create aggregate tollgate.sum_histograms(bigint[]) (
  sfunc = tollgate.add_histogram, stype = bigint[], initcond = '{}', parallel = safe,
  combinefunc = tollgate.add_histogram
);

-- A later state replaces an earlier one.
create function tollgate.state_rank(status text) returns integer language sql immutable parallel safe as
$$ select case status when 'open' then 0 when 'abandoned' then 1 else 2 end $$;

-- Where a request counts in usage_daily.
create function tollgate.daily_places(key_id text, team_id text, model text, upstream text, endpoint text)
returns table (dimension text, value text) language sql immutable parallel safe as $$
  select * from (values
    ('key', key_id), ('team', team_id), ('model', model), ('upstream', upstream), ('endpoint', endpoint),
    ('key of model', nullif(model, '') || ' ' || key_id),
    ('team of model', nullif(model, '') || ' ' || team_id),
    ('upstream of model', nullif(model, '') || ' ' || upstream),
    ('key of team', nullif(team_id, '') || ' ' || key_id),
    ('model of team', nullif(team_id, '') || ' ' || model),
    ('upstream of team', nullif(team_id, '') || ' ' || upstream)
  ) as place (dimension, value) where place.value is not null
$$;

-- Makes tollgate.ship_ledger for the columns that the tables have. A migration that adds columns calls it again.
create function tollgate.make_ship_ledger() returns void language plpgsql as $make$
declare
  template text := $template$
-- Writes a batch of one node's outbox, and moves its cursor, in one transaction. Rows that are there already change
-- nothing, so a batch may come again. Refused, with the cursor as it is, unless that stands at from_seq: so a batch
-- that was given up by its sender can't overtake a later one.
--
-- ids: of all requests in the batch, ascending. batch: requests and calls with SQLite's columns, each as it is now, and
-- refusals as counted in all. ignored: requests from before tollgate.ledger_state.kept_from_ms, whose rows may be gone.
create or replace function tollgate.ship_ledger(
  of_node text, from_seq bigint, to_seq bigint, to_mark text, ids uuid[], batch json,
  out seq bigint, out mark text, out is_applied boolean, out ignored bigint
) language plpgsql set jit = off set plan_cache_mode = force_generic_plan as $body$
#variable_conflict use_column
declare
  oldest uuid;
  -- Requests whose calls are those of the batch, and requests that are further here than in the batch.
  ended uuid[];
  ahead uuid[];
  -- Taken from the sums.
  replaced tollgate.requests[];
begin
  select c.seq, c.mark into seq, mark from tollgate.ledger_cursors c where c.node = of_node for update;
  if not found then
    insert into tollgate.ledger_cursors (node) values (of_node) on conflict do nothing;
    select c.seq, c.mark into seq, mark from tollgate.ledger_cursors c where c.node = of_node for update;
  end if;
  is_applied := seq = from_seq;
  ignored := 0;
  if not is_applied then return; end if;

  if cardinality(ids) > 0 then
    select tollgate.first_id(kept_from_ms) into oldest from tollgate.ledger_state;
    with given as materialized (
      select * from json_populate_recordset(
        json_populate_record(null::tollgate.requests, '{defaults}'), batch -> 'requests'
      )
    ), incoming as materialized (
      select * from given where id >= oldest
    ), stored as materialized (
      select * from tollgate.requests where id = any(ids) and id between ids[1] and ids[cardinality(ids)]
    ), changed as materialized (
      select i.* from incoming i left join stored s on s.id = i.id
      where s.id is null or tollgate.state_rank(i.status) > tollgate.state_rank(s.status)
        or (i.status = 'open' and s.status = 'open' and i.reserved_completion_tokens > s.reserved_completion_tokens)
        or (i.status = 'abandoned' and s.status = 'abandoned'
          and (i.attempts, i.cost_nano_usd, i.reserved_nano_usd, i.completion_tokens)
            is distinct from (s.attempts, s.cost_nano_usd, s.reserved_nano_usd, s.completion_tokens))
    ), taken as materialized (
      select s.* from stored s join changed c on c.id = s.id where s.status = 'abandoned'
    ), deltas as (
      select 1 as sign, * from changed where status <> 'open' union all select -1, * from taken
    ), hourly as materialized (
      select created_ms - created_ms % 3600000 as hour_ms, key_id, coalesce(team_id, '') as team_id, model, upstream,
        endpoint,
        sum(sign)::bigint as requests,
        sum(case when status in ('failed', 'abandoned') then sign else 0 end)::bigint as errors,
        sum(case when status = 'cut' then sign else 0 end)::bigint as cuts,
        {hourly},
        sum(case when unpriced <> 0 then sign else 0 end)::bigint as unpriced,
        sum(sign * cost_nano_usd)::bigint as cost_nano_usd,
        sum(case when estimated <> 0 then sign * cost_nano_usd else 0 end)::bigint as estimated_cost_nano_usd,
        tollgate.histogram(tollgate.bucket(first_token_ms), sign) as first_token_histogram,
        tollgate.histogram(tollgate.bucket(duration_ms), sign) as duration_histogram
      from deltas group by 1, 2, 3, 4, 5, 6
    ), daily as (
      select place.dimension, hour_ms - hour_ms % 86400000 as day_ms, place.value,
        {daily},
        tollgate.sum_histograms(first_token_histogram) as first_token_histogram,
        tollgate.sum_histograms(duration_histogram) as duration_histogram
      from hourly, tollgate.daily_places(key_id, team_id, model, upstream, endpoint) as place group by 1, 2, 3
    ), write_requests as (
      insert into tollgate.requests as r (
        {request_columns}, node
      )
      select {request_columns}, of_node
      from changed order by id
      on conflict (id) do update set
        {settled_request}
    ), write_hourly as (
      insert into tollgate.usage_hourly as u (hour_ms, key_id, team_id, model, upstream, endpoint, {summed})
      select hour_ms, key_id, team_id, model, upstream, endpoint, {summed} from hourly order by 1, 2, 3, 4, 5, 6
      on conflict (hour_ms, key_id, team_id, model, upstream, endpoint) do update set
        {added}
    ), write_daily as (
      insert into tollgate.usage_daily as u (dimension, day_ms, value, {summed})
      select dimension, day_ms, value, {summed} from daily order by 1, 2, 3
      on conflict (dimension, day_ms, value) do update set
        {added}
    ), write_uses as (
      insert into tollgate.key_uses as u
      select distinct on (key_id) key_id, created_ms, model from changed order by key_id, created_ms desc, model desc
      on conflict (key_id) do update set last_used_ms = excluded.last_used_ms, last_model = excluded.last_model
      where (excluded.last_used_ms, excluded.last_model) > (u.last_used_ms, u.last_model)
    )
    select
      (select count(*) from given where id < oldest),
      (select array_agg(i.id) from incoming i left join stored s on s.id = i.id
        where i.status <> 'open' and (s.id is null or tollgate.state_rank(i.status) >= tollgate.state_rank(s.status))),
      (select array_agg(s.id) from stored s left join incoming i on i.id = s.id
        where tollgate.state_rank(s.status) > tollgate.state_rank(coalesce(i.status, 'open'))),
      (select array_agg(t::tollgate.requests) from taken t)
    into ignored, ended, ahead, replaced;

    delete from tollgate.calls where request_id = any(ended) and request_id between ids[1] and ids[cardinality(ids)];
    if json_array_length(batch -> 'calls') > 0 then
      insert into tollgate.calls as c ({call_columns})
      select {call_columns} from json_populate_recordset(
        json_populate_record(null::tollgate.calls, '{defaults}'), batch -> 'calls'
      )
      where request_id >= oldest and request_id <> all(coalesce(ahead, '{}')) order by request_id, number
      on conflict (request_id, number) do update set
        {settled_call}
      where tollgate.state_rank(excluded.status) > tollgate.state_rank(c.status)
        or (excluded.status = 'open' and c.status = 'open'
          and excluded.reserved_completion_tokens > c.reserved_completion_tokens);
    end if;

    -- A row that was abandoned in one cell and settled in another leaves nothing in the first.
    if replaced is not null then
      delete from tollgate.usage_hourly u using unnest(replaced) as r
      where u.requests = 0 and u.hour_ms = r.created_ms - r.created_ms % 3600000 and u.key_id = r.key_id
        and u.team_id = coalesce(r.team_id, '') and u.model = r.model and u.upstream = r.upstream
        and u.endpoint = r.endpoint;
      delete from tollgate.usage_daily u using unnest(replaced) as r,
        tollgate.daily_places(r.key_id, coalesce(r.team_id, ''), r.model, r.upstream, r.endpoint) as place
      where u.requests = 0 and u.dimension = place.dimension and u.value = place.value
        and u.day_ms = r.created_ms - r.created_ms % 86400000;
    end if;
  end if;

  if json_array_length(batch -> 'refusals') > 0 then
    insert into tollgate.refusals_hourly as f (hour_ms, key_id, team_id, code, refused, last_ms, node)
    select hour_ms, key_id, team_id, code, refused, last_ms, of_node
    from json_populate_recordset(null::tollgate.refusals_hourly, batch -> 'refusals') order by 1, 2, 3, 4
    on conflict (hour_ms, key_id, team_id, code, node) do update set
      refused = greatest(f.refused, excluded.refused), last_ms = greatest(f.last_ms, excluded.last_ms);
  end if;

  update tollgate.ledger_cursors c
  set seq = to_seq, mark = to_mark, shipped_ms = (extract(epoch from clock_timestamp()) * 1000)::bigint
  where c.node = of_node;
  seq := to_seq;
  mark := to_mark;
end $body$
$template$;
  -- What a node of the version before doesn't send.
  defaults text;
  part record;
begin
  select json_object_agg(attname, 0) into defaults from pg_attribute
  where attrelid = 'tollgate.requests'::regclass and attnum > 0 and not attisdropped and attnotnull and atthasdef
    and atttypid = 'bigint'::regtype;
  template := replace(template, '{defaults}', defaults);
  for part in
    with columns as (
      select relname as of, attnum as at, quote_ident(attname) as name
      from pg_attribute join pg_class on pg_class.oid = attrelid
      where attnum > 0 and not attisdropped and attrelid in (
        'tollgate.requests'::regclass, 'tollgate.calls'::regclass, 'tollgate.usage_hourly'::regclass
      )
    ), summed as (
      select * from columns where of = 'usage_hourly'
        and name not in ('hour_ms', 'key_id', 'team_id', 'model', 'upstream', 'endpoint')
    ), settled as (
      select * from columns where of <> 'usage_hourly' and name not in (
        'id', 'request_id', 'number', 'reason', 'instance', 'key_id', 'team_id', 'model', 'endpoint', 'stream', '"user"',
        'created_ms', 'node'
      )
    )
    select 'hourly' as place, string_agg(format('sum(sign * %s)::bigint as %1$s', name), ', ' order by at) as text
    from summed where name not in ('requests', 'errors', 'cuts', 'unpriced', 'cost_nano_usd', 'estimated_cost_nano_usd')
      and name !~ '_histogram$'
    union all select 'daily', string_agg(format('sum(%s)::bigint as %1$s', name), ', ' order by at)
    from summed where name !~ '_histogram$'
    union all select 'summed', string_agg(name, ', ' order by at) from summed
    union all select 'added', string_agg(format(
      case when name ~ '_histogram$' then '%s = tollgate.add_histogram(u.%1$s, excluded.%1$s)'
        else '%s = u.%1$s + excluded.%1$s' end, name), ', ' order by at) from summed
    union all select 'request_columns', string_agg(name, ', ' order by at)
    from columns where of = 'requests' and name <> 'node'
    union all select 'call_columns', string_agg(name, ', ' order by at) from columns where of = 'calls'
    union all select 'settled_request', string_agg(format('%s = excluded.%1$s', name), ', ' order by at)
    from settled where of = 'requests'
    union all select 'settled_call', string_agg(format('%s = excluded.%1$s', name), ', ' order by at)
    from settled where of = 'calls'
  loop
    template := replace(template, '{' || part.place || '}', part.text);
  end loop;
  execute template;
end $make$;

select tollgate.make_ship_ledger();

-- Makes the partitions of all months in a span, also where rows of such a month have come already. Returns how many.
-- Gives up rather than have all nodes wait behind it for a long report.
create function tollgate.make_ledger_months(from_ms bigint, until_ms bigint) returns integer
language plpgsql set lock_timeout = '500ms' as $$
declare
  made integer := 0;
  parent text;
  month timestamp := date_trunc('month', to_timestamp(from_ms / 1000.0) at time zone 'UTC');
  child text;
  first uuid;
  after uuid;
begin
  perform pg_advisory_xact_lock(hashtextextended('tollgate.make_ledger_months', 0));
  while month < to_timestamp(until_ms / 1000.0) at time zone 'UTC' loop
    foreach parent in array array['requests', 'calls'] loop
      child := parent || to_char(month, '_YYYY_MM');
      continue when to_regclass('tollgate.' || child) is not null;
      first := tollgate.first_id((extract(epoch from month at time zone 'UTC') * 1000)::bigint);
      after := tollgate.first_id((extract(epoch from (month + interval '1 month') at time zone 'UTC') * 1000)::bigint);
      execute format('create table tollgate.%I (like tollgate.%I including all)', child, parent);
      execute format('lock table tollgate.%I in exclusive mode', parent || '_default');
      execute format(
        'with moved as (delete from tollgate.%I where %I >= $1 and %2$I < $2 returning *)
         insert into tollgate.%I select * from moved',
        parent || '_default', case parent when 'requests' then 'id' else 'request_id' end, child
      ) using first, after;
      execute format('alter table tollgate.%I attach partition tollgate.%I for values from (%L) to (%L)',
        parent, child, first, after);
      made := made + 1;
    end loop;
    month := month + interval '1 month';
  end loop;
  return made;
end $$;

-- Drops requests of whole months before a time; sums stay. Returns how many partitions.
create function tollgate.retain_ledger(before_ms bigint) returns integer
language plpgsql set lock_timeout = '500ms' as $$
declare
  dropped integer := 0;
  month timestamp := date_trunc('month', to_timestamp(before_ms / 1000.0) at time zone 'UTC');
  month_ms bigint := (extract(epoch from month at time zone 'UTC') * 1000)::bigint;
  child text;
  gone bigint;
  old bigint := 0;
begin
  for child in
    select c.relname from pg_inherits i
    join pg_class c on c.oid = i.inhrelid
    where i.inhparent in ('tollgate.requests'::regclass, 'tollgate.calls'::regclass)
      and c.relname ~ '_[0-9]{4,}_[0-9]{2}$'
      and to_date(substring(c.relname from '_([0-9]+_[0-9]+)$'), 'YYYY_MM') < month
    order by 1
  loop
    execute format('drop table tollgate.%I', child);
    dropped := dropped + 1;
  end loop;
  delete from tollgate.calls_default where request_id < tollgate.first_id(month_ms);
  get diagnostics gone = row_count;
  old := old + gone;
  delete from tollgate.requests_default where id < tollgate.first_id(month_ms);
  get diagnostics gone = row_count;
  if dropped + old + gone > 0 then
    update tollgate.ledger_state set kept_from_ms = month_ms where kept_from_ms < month_ms;
  end if;
  delete from tollgate.refusals_hourly where hour_ms < month_ms;
  return dropped;
end $$;

select tollgate.make_ledger_months(now_ms, now_ms + 5356800000)
from (select (extract(epoch from now()) * 1000)::bigint as now_ms) as clock;
