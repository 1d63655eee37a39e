-- Counts of audio, characters, images, search units, and pages, and where counts are from.
alter table tollgate.requests
  add audio_ms bigint not null default 0,
  add characters bigint not null default 0,
  add images bigint not null default 0,
  add search_units bigint not null default 0,
  add pages bigint not null default 0,
  add counted_by text collate "C";
alter table tollgate.calls
  add audio_ms bigint not null default 0,
  add characters bigint not null default 0,
  add images bigint not null default 0,
  add search_units bigint not null default 0,
  add pages bigint not null default 0,
  add counted_by text collate "C";
alter table tollgate.usage_hourly
  add audio_ms bigint not null default 0,
  add characters bigint not null default 0,
  add images bigint not null default 0,
  add search_units bigint not null default 0,
  add pages bigint not null default 0;
alter table tollgate.usage_daily
  add audio_ms bigint not null default 0,
  add characters bigint not null default 0,
  add images bigint not null default 0,
  add search_units bigint not null default 0,
  add pages bigint not null default 0;

-- Makes tollgate.ship_ledger for the columns that the tables have: a migration that adds some calls it.
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
