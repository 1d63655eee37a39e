-- Limits of all nodes without Valkey: the same algorithm as src/limits/shared/valkey.lua; see src/limits/shared/engine.ts. The tables
-- are unlogged: they cost no disk writes, and are empty after a crash, a failover, or a restore, never stale.
create unlogged table tollgate.limit_state (
  one boolean primary key default true check (one),
  born_ms bigint not null,
  swept_ms bigint not null
);
create unlogged table tollgate.limit_epochs (
  epoch text collate "C" primary key,
  seq bigint not null,
  seen_ms bigint not null
) with (fillfactor = 50);
create unlogged table tollgate.limit_scopes (
  name text collate "C" primary key,
  slots bigint not null default 0
) with (fillfactor = 50);
create unlogged table tollgate.limit_grains (
  name text collate "C" not null,
  first_ms bigint not null,
  last_ms bigint not null,
  requests bigint not null,
  tokens bigint not null,
  primary key (name, first_ms)
) with (fillfactor = 50);
create unlogged table tollgate.limit_budgets (
  name text collate "C" not null,
  usage text collate "C" not null,
  -- Null: not read from the ledger yet.
  spent bigint,
  reserved bigint not null default 0,
  -- Reached, and whether that is news.
  level bigint not null default 0,
  is_news boolean not null default false,
  nano_usd bigint not null,
  warn_nano_usd bigint not null,
  until_ms bigint not null,
  primary key (name, usage)
) with (fillfactor = 50);
create index limit_budgets_news on tollgate.limit_budgets (name) where is_news;
create unlogged table tollgate.limit_holds (
  epoch text collate "C" not null,
  id text collate "C" not null,
  names text[] not null,
  -- First ms of the grains that have it; 0 for none.
  grains bigint[] not null,
  -- '' for none.
  usages text[] not null,
  requests bigint not null default 0,
  tokens bigint not null default 0,
  slots bigint not null default 0,
  held bigint not null default 0,
  -- Its epoch was given up: it counts as spent.
  gone_ms bigint,
  primary key (epoch, id)
) with (fillfactor = 50);

create function tollgate.limit_add(of text, at_ms bigint, more_requests bigint, more_tokens bigint) returns bigint
language plpgsql as $$
declare
  grain_ms bigint;
begin
  select first_ms into grain_ms from tollgate.limit_grains
    where name = of and first_ms <= at_ms order by first_ms desc limit 1;
  if grain_ms is null or at_ms - grain_ms >= 1000 then grain_ms := at_ms; end if;
  insert into tollgate.limit_grains as old values (of, grain_ms, at_ms, more_requests, more_tokens)
    on conflict (name, first_ms) do update set last_ms = greatest(old.last_ms, excluded.last_ms),
      requests = old.requests + excluded.requests, tokens = old.tokens + excluded.tokens;
  return grain_ms;
end $$;

create function tollgate.limit_level(spent bigint, nano_usd bigint, warn_nano_usd bigint) returns bigint
language sql immutable as $$
  select case when coalesce(spent, 0) = 0 then 0 when spent >= nano_usd then 2 when spent >= warn_nano_usd then 1 else 0 end
$$;

create function tollgate.limit_spend(of text, which text, less_held bigint, more_spent bigint) returns void
language sql as $$
  -- What is unknown will be read from the ledger, which has this.
  update tollgate.limit_budgets as b set reserved = greatest(0, reserved - less_held), spent = next.spent,
    level = next.level, is_news = is_news or next.level > b.level
  from (
    select n.spent, tollgate.limit_level(n.spent, o.nano_usd, o.warn_nano_usd) as level
    from tollgate.limit_budgets as o, lateral (
      select case when o.spent is not null then greatest(0, o.spent + more_spent) end as spent) as n
    where o.name = of and o.usage = which
  ) as next
  where b.name = of and b.usage = which
$$;

-- Brings a hold up to what is wanted.
create function tollgate.limit_take(hold tollgate.limit_holds, want jsonb, now_ms bigint) returns tollgate.limit_holds
language plpgsql as $$
declare
  more_requests bigint := greatest(0, (want->>'requests')::bigint - hold.requests);
  more_tokens bigint := greatest(0, coalesce((want->>'tokens')::bigint, 0) - hold.tokens);
  more_slots bigint := greatest(0, (want->>'slots')::bigint - hold.slots);
  more_held bigint := greatest(0, (want->>'heldNanoUsd')::bigint - hold.held);
begin
  for place in 1 .. cardinality(hold.names) loop
    if more_requests > 0 then
      hold.grains[place] := tollgate.limit_add(hold.names[place], now_ms, more_requests, more_tokens);
    elsif more_tokens > 0 then
      update tollgate.limit_grains set tokens = tokens + more_tokens
        where name = hold.names[place] and first_ms = hold.grains[place];
    end if;
    if more_held > 0 and hold.usages[place] <> '' then
      update tollgate.limit_budgets set reserved = reserved + more_held
        where name = hold.names[place] and usage = hold.usages[place];
    end if;
  end loop;
  if more_slots > 0 then
    update tollgate.limit_scopes set slots = slots + more_slots where name = any(hold.names);
  end if;
  hold.requests := hold.requests + more_requests;
  hold.tokens := hold.tokens + more_tokens;
  hold.slots := hold.slots + more_slots;
  hold.held := hold.held + more_held;
  return hold;
end $$;

create function tollgate.limit_free(hold tollgate.limit_holds) returns tollgate.limit_holds language plpgsql as $$
begin
  if hold.slots > 0 then
    update tollgate.limit_scopes set slots = greatest(0, slots - hold.slots) where name = any(hold.names);
  end if;
  hold.slots := 0;
  return hold;
end $$;

create function tollgate.limit_put(hold tollgate.limit_holds) returns void language sql as $$
  insert into tollgate.limit_holds select (hold).* on conflict (epoch, id) do update set grains = excluded.grains,
    requests = excluded.requests, tokens = excluded.tokens, slots = excluded.slots, held = excluded.held,
    gone_ms = excluded.gone_ms
$$;

create function tollgate.limit_budget(scope jsonb) returns tollgate.limit_budgets language plpgsql as $$
declare
  of text := scope->>'name';
  asked jsonb := scope->'budget';
  most bigint := (asked->>'nanoUsd')::bigint;
  known tollgate.limit_budgets;
begin
  select * into known from tollgate.limit_budgets where name = of and usage = asked->>'usage';
  if known.name is null or known.nano_usd <> most or (known.spent is null and asked ? 'spentNanoUsd') then
    insert into tollgate.limit_budgets as old (name, usage, spent, nano_usd, warn_nano_usd, until_ms)
      values (of, asked->>'usage', (asked->>'spentNanoUsd')::bigint, most, (asked->>'warnNanoUsd')::bigint,
        (asked->>'untilMs')::bigint)
      on conflict (name, usage) do update set nano_usd = excluded.nano_usd, warn_nano_usd = excluded.warn_nano_usd,
        spent = coalesce(old.spent, excluded.spent)
      returning * into known;
    perform tollgate.limit_spend(of, asked->>'usage', 0, 0);
  end if;
  return known;
end $$;

-- The hold of an epoch, held again if it was given up; null without one.
create function tollgate.limit_hold(of_epoch text, of_id text) returns tollgate.limit_holds language plpgsql as $$
declare
  hold tollgate.limit_holds;
begin
  select * into hold from tollgate.limit_holds where epoch = of_epoch and id = of_id;
  if hold.gone_ms is not null then
    for place in 1 .. cardinality(hold.names) loop
      perform tollgate.limit_spend(hold.names[place], hold.usages[place], -hold.held, -hold.held);
    end loop;
    hold.gone_ms := null;
    perform tollgate.limit_put(hold);
  end if;
  return hold;
end $$;

create function tollgate.limit_new_hold(of_epoch text, of_id text, scopes jsonb) returns tollgate.limit_holds
language sql as $$
  select of_epoch, of_id, array_agg(scope->>'name' order by place), array_agg(0::bigint),
    array_agg(coalesce(scope->'budget'->>'usage', '') order by place), 0::bigint, 0::bigint, 0::bigint, 0::bigint,
    null::bigint
  from jsonb_array_elements(scopes) with ordinality as each(scope, place)
$$;

create function tollgate.limit_tell(of_epoch text, one jsonb, now_ms bigint) returns void language plpgsql as $$
declare
  op text := one->>'op';
  hold tollgate.limit_holds;
  scope jsonb;
  more_tokens bigint;
begin
  if op = 'spend' then
    perform tollgate.limit_spend(one->>'name', one->>'usage', 0, (one->>'nanoUsd')::bigint);
    return;
  elsif op = 'rate' then
    perform tollgate.limit_add(one->>'name', now_ms - greatest(0, floor((one->>'agoMs')::numeric)::bigint),
      (one->>'requests')::bigint, (one->>'tokens')::bigint);
    return;
  end if;
  hold := tollgate.limit_hold(of_epoch, one->>'id');
  if op = 'hold' then
    if hold.id is null then hold := tollgate.limit_new_hold(of_epoch, one->>'id', one->'scopes'); end if;
    for scope in select value from jsonb_array_elements(one->'scopes') loop
      insert into tollgate.limit_scopes (name) values (scope->>'name') on conflict do nothing;
      if scope->'budget'->>'usage' = any(hold.usages) then perform tollgate.limit_budget(scope); end if;
    end loop;
    perform tollgate.limit_put(tollgate.limit_take(hold, one, now_ms));
  elsif hold.id is null then
    return;
  elsif op = 'end' then
    hold := tollgate.limit_free(hold);
    more_tokens := case when (one->>'isCanceled')::boolean then 0 else coalesce((one->>'tokens')::bigint, hold.tokens) end
      - hold.tokens;
    for place in 1 .. cardinality(hold.names) loop
      update tollgate.limit_grains set tokens = tokens + more_tokens,
        requests = requests - case when (one->>'isCanceled')::boolean then hold.requests else 0 end
        where name = hold.names[place] and first_ms = hold.grains[place];
      perform tollgate.limit_spend(hold.names[place], hold.usages[place], hold.held, (one->>'nanoUsd')::bigint);
    end loop;
    delete from tollgate.limit_holds where epoch = of_epoch and id = hold.id;
  elsif op = 'free' then
    perform tollgate.limit_put(tollgate.limit_free(hold));
  elsif op = 'lower' and hold.held > (one->>'heldNanoUsd')::bigint then
    for place in 1 .. cardinality(hold.names) loop
      perform tollgate.limit_spend(hold.names[place], hold.usages[place], hold.held - (one->>'heldNanoUsd')::bigint, 0);
    end loop;
    hold.held := (one->>'heldNanoUsd')::bigint;
    perform tollgate.limit_put(hold);
  end if;
end $$;

-- Ms until at most `most` of requests, or tokens, are left; -1 for never.
create function tollgate.limit_wait(of text, is_tokens boolean, most bigint, now_ms bigint) returns bigint
language sql as $$
  select case when most < 0 then -1 else coalesce((
    select last_ms + 60000 - now_ms from (
      select last_ms, first_ms, sum(case when is_tokens then tokens else requests end) over (order by first_ms desc)
        - case when is_tokens then tokens else requests end as newer
      from tollgate.limit_grains where name = of
    ) as each where newer <= most order by first_ms limit 1), 0) end
$$;

create function tollgate.limit_decide(of_epoch text, ask jsonb, now_ms bigint) returns numeric[] language plpgsql as $$
declare
  hold tollgate.limit_holds := tollgate.limit_hold(of_epoch, ask->>'id');
  is_new boolean := hold.id is null;
  is_take boolean := ask->>'op' = 'take';
  wanted_tokens bigint := (ask->>'tokens')::bigint;
  likely bigint := (ask->>'likelyNanoUsd')::bigint;
  is_granted boolean := true;
  place int := 0;
  scope jsonb;
  of text;
  state numeric[];
  states numeric[] := '{}';
  slots_now bigint;
  requests_now bigint;
  tokens_now bigint;
  wait bigint;
  budget tollgate.limit_budgets;
begin
  for scope in select value from jsonb_array_elements(ask->'scopes') loop
    place := place + 1;
    of := scope->>'name';
    state := array[0, 0, 0, 0];
    if is_take and is_new then
      select coalesce(sum(requests), 0), coalesce(sum(tokens), 0) into requests_now, tokens_now
        from tollgate.limit_grains where name = of;
      select slots into slots_now from tollgate.limit_scopes where name = of;
      wait := 0;
      if wanted_tokens > (scope->>'tpm')::bigint then
        state := array[3, tokens_now, -1, 0];
      elsif (ask->>'slots')::bigint > 0 and slots_now >= (scope->>'concurrency')::bigint then
        state := array[1, slots_now, case when (scope->>'concurrency')::bigint > 0 then 1000 else -1 end, 0];
      else
        if (ask->>'requests')::bigint > 0 and requests_now > (scope->>'rpm')::bigint - 1 then
          wait := tollgate.limit_wait(of, false, (scope->>'rpm')::bigint - 1, now_ms);
          if wait <> 0 then state := array[2, requests_now, wait, 0]; end if;
        end if;
        if state[1] = 0 and tokens_now > (scope->>'tpm')::bigint - wanted_tokens then
          wait := tollgate.limit_wait(of, true, (scope->>'tpm')::bigint - wanted_tokens, now_ms);
          if wait <> 0 then state := array[3, tokens_now, wait, 0]; end if;
        end if;
      end if;
    end if;
    if scope ? 'budget' then
      if is_new or hold.usages[place] = scope->'budget'->>'usage' then
        budget := tollgate.limit_budget(scope);
      else
        select * into budget from tollgate.limit_budgets where name = of and usage = hold.usages[place];
      end if;
      if is_take and is_new and (now_ms < (scope->'budget'->>'fromMs')::bigint or
          now_ms >= (scope->'budget'->>'untilMs')::bigint) then
        state[4] := 3;
      elsif budget.name is not null and budget.spent is null then
        state[4] := 2;
      elsif likely > 0 and (ask->>'heldNanoUsd')::bigint > coalesce(hold.held, 0) and
          budget.spent + budget.reserved - coalesce(hold.held, 0) + likely > budget.nano_usd then
        state[4] := 1;
      end if;
    end if;
    is_granted := is_granted and state[1] = 0 and state[4] = 0;
    states := states || state;
  end loop;
  if is_granted then
    if is_new then hold := tollgate.limit_new_hold(of_epoch, ask->>'id', ask->'scopes'); end if;
    perform tollgate.limit_put(tollgate.limit_take(hold, ask, now_ms));
  end if;
  return (
    select array_agg(figure order by scopes.at, each.at) from jsonb_array_elements(ask->'scopes')
      with ordinality as scopes(one, at)
    left join lateral (
      select coalesce(sum(requests), 0) as r, coalesce(max(last_ms) filter (where requests > 0) + 60000 - now_ms, 0) as re,
        coalesce(sum(tokens), 0) as t, coalesce(max(last_ms) filter (where tokens > 0) + 60000 - now_ms, 0) as te
      from tollgate.limit_grains where name = one->>'name') as rates on true
    left join tollgate.limit_budgets as b on b.name = one->>'name'
      and b.usage = coalesce(hold.usages[scopes.at], one->'budget'->>'usage'),
    unnest(array[states[4 * scopes.at - 3], states[4 * scopes.at - 2], states[4 * scopes.at - 1], r, re, t, te,
      states[4 * scopes.at], coalesce(b.spent, 0), coalesce(b.reserved, 0)]) with ordinality as each(figure, at)
  );
end $$;

-- Some holds of epochs that aren't heard of; the rest with later calls.
create function tollgate.limit_reap(lease_ms bigint, now_ms bigint) returns void language plpgsql as $$
declare
  silent text;
  hold tollgate.limit_holds;
  more int := 200;
begin
  for silent in select epoch from tollgate.limit_epochs where seen_ms <= now_ms - lease_ms loop
    for hold in select * from tollgate.limit_holds where epoch = silent and gone_ms is null limit more loop
      more := more - 1;
      hold := tollgate.limit_free(hold);
      for place in 1 .. cardinality(hold.names) loop
        perform tollgate.limit_spend(hold.names[place], hold.usages[place], hold.held, hold.held);
      end loop;
      hold.gone_ms := now_ms;
      perform tollgate.limit_put(hold);
    end loop;
    exit when more = 0;
    delete from tollgate.limit_epochs where epoch = silent;
  end loop;
end $$;

create function tollgate.limit_sweep(now_ms bigint) returns void language sql as $$
  update tollgate.limit_state set swept_ms = now_ms;
  delete from tollgate.limit_grains where last_ms <= now_ms - 60000;
  delete from tollgate.limit_holds where gone_ms < now_ms - 86400000;
  delete from tollgate.limit_budgets where until_ms < now_ms - 86400000 and reserved = 0;
$$;

-- One batch, as JSON. One at a time: each decision depends on the one before.
create function tollgate.ask_limits(batch jsonb) returns text language plpgsql as $$
declare
  now_ms bigint;
  born bigint;
  swept bigint;
  own tollgate.limit_epochs;
  is_new boolean;
  touched text[];
  one jsonb;
  replies json[] := '{}';
  warnings json;
begin
  perform pg_advisory_xact_lock(1880189442);
  now_ms := tollgate.now_ms();
  select born_ms, swept_ms into born, swept from tollgate.limit_state;
  if born is null then
    born := now_ms;
    swept := now_ms;
    insert into tollgate.limit_state (born_ms, swept_ms) values (born, swept);
  end if;
  select * into own from tollgate.limit_epochs where epoch = batch->>'epoch';
  is_new := own.epoch is null or now_ms - own.seen_ms > (batch->>'leaseMs')::bigint;
  if own.epoch is null or now_ms - own.seen_ms > (batch->>'leaseMs')::bigint / 10 then
    insert into tollgate.limit_epochs values (batch->>'epoch', 0, now_ms)
      on conflict (epoch) do update set seen_ms = excluded.seen_ms;
    perform tollgate.limit_reap((batch->>'leaseMs')::bigint, now_ms);
    if now_ms - swept >= 10000 then perform tollgate.limit_sweep(now_ms); end if;
  end if;
  if jsonb_array_length(batch->'told') > 0 and coalesce(own.seq, 0) < (batch->>'seq')::bigint then
    for one in select value from jsonb_array_elements(batch->'told') loop
      perform tollgate.limit_tell(batch->>'epoch', one, now_ms);
    end loop;
    update tollgate.limit_epochs set seq = (batch->>'seq')::bigint where epoch = batch->>'epoch';
  end if;
  if not is_new and now_ms - born >= (batch->>'youngMs')::bigint and jsonb_array_length(batch->'asks') > 0 then
    select array_agg(distinct scope->>'name') into touched
      from jsonb_array_elements(batch->'asks') as ask, jsonb_array_elements(ask->'scopes') as scope;
    insert into tollgate.limit_scopes (name) select unnest(touched) on conflict do nothing;
    delete from tollgate.limit_grains where name = any(touched) and last_ms <= now_ms - 60000;
    for one in select value from jsonb_array_elements(batch->'asks') loop
      replies := replies || array_to_json(tollgate.limit_decide(batch->>'epoch', one, now_ms));
    end loop;
  end if;
  with news as (
    update tollgate.limit_budgets set is_news = false where is_news returning name, usage, spent
  )
  select json_agg(json_build_array(name, usage, spent)) into warnings from news;
  return json_build_object('now', now_ms, 'born', born, 'nodes', (select count(*) from tollgate.limit_epochs),
    'isNew', is_new, 'warnings', coalesce(warnings, '[]'), 'replies', replies)::text;
end $$;
