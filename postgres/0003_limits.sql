-- Limits of all nodes without Valkey: the algorithm of src/limits/shared/valkey.lua; see src/limits/shared/engine.ts.
-- The tables are unlogged: they cost no disk writes, and are empty after a crash, a failover, or a restore.
create unlogged table tollgate.limit_state (
  one boolean primary key default true check (one),
  born_ms bigint not null,
  swept_ms bigint not null
);
create unlogged table tollgate.limit_epochs (
  epoch text collate "C" primary key,
  seq bigint not null,
  seen_ms bigint not null,
  -- When the node last said that the ledger lacks what it spent.
  behind_ms bigint,
  -- Its holds were given up. It may return, and send again what it told last.
  is_gone boolean not null default false
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
  -- Null: not read from the ledger yet; what was spent meanwhile, and when last.
  spent bigint,
  unread bigint not null default 0,
  unread_ms bigint not null default 0,
  reserved bigint not null default 0,
  -- Warned of: 1 or 2, and the amount that was reached; whether that is news. Nodes may disagree on the limit, and ask
  -- in turn: neither falls back to that of another limit.
  level bigint not null default 0,
  warned bigint not null default 0,
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
  -- Of a lease: nano-dollars that running requests have of it.
  used bigint not null default 0,
  -- Its epoch was given up: it counts as spent.
  gone_ms bigint,
  primary key (epoch, id)
) with (fillfactor = 50);

-- Functions in plpgsql keep their plans; those in sql would be planned at each call.
create function tollgate.limit_add(of text, at_ms bigint, more_requests bigint, more_tokens bigint) returns bigint
language plpgsql as $$
declare
  grain_ms bigint;
begin
  update tollgate.limit_grains set last_ms = greatest(last_ms, at_ms), requests = requests + more_requests,
    tokens = tokens + more_tokens
    -- One: those of a node's past may lie between others.
    where name = of and first_ms = (
      select max(first_ms) from tollgate.limit_grains where name = of and first_ms > at_ms - 1000 and first_ms <= at_ms
    ) returning first_ms into grain_ms;
  if grain_ms is null then
    insert into tollgate.limit_grains values (of, at_ms, at_ms, more_requests, more_tokens);
    grain_ms := at_ms;
  end if;
  return grain_ms;
end $$;

create function tollgate.limit_spend(of text, which text, less_held bigint, more_spent bigint) returns void
language plpgsql as $$
declare
  budget tollgate.limit_budgets;
  to_level bigint := 0;
  reached bigint := 0;
begin
  -- What is unknown will be read from the ledger, which has this in a second.
  update tollgate.limit_budgets set reserved = greatest(0, reserved - less_held),
    spent = case when spent is not null then greatest(0, spent + more_spent) end,
    unread = case when spent is not null or more_spent <= 0 then unread
      when tollgate.now_ms() - unread_ms < 1000 then unread + more_spent else more_spent end,
    unread_ms = case when spent is not null or more_spent <= 0 then unread_ms else tollgate.now_ms() end
    where name = of and usage = which returning * into budget;
  if budget.spent > 0 and budget.spent >= budget.nano_usd then
    to_level := 2;
    reached := budget.nano_usd;
  elsif budget.spent > 0 and budget.spent >= budget.warn_nano_usd then
    to_level := 1;
    reached := budget.warn_nano_usd;
  end if;
  if to_level > budget.level or reached > budget.warned or budget.spent < budget.warned then
    update tollgate.limit_budgets
      set level = greatest(level, to_level), warned = least(greatest(warned, reached), spent),
        is_news = is_news or to_level > level or reached > warned
      where name = of and usage = which;
  end if;
end $$;

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

create function tollgate.limit_put(hold tollgate.limit_holds) returns void language plpgsql as $$
begin
  insert into tollgate.limit_holds select (hold).* on conflict (epoch, id) do update set grains = excluded.grains,
    requests = excluded.requests, tokens = excluded.tokens, slots = excluded.slots, held = excluded.held,
    gone_ms = excluded.gone_ms;
end $$;

create function tollgate.limit_budget(scope jsonb) returns tollgate.limit_budgets language plpgsql as $$
declare
  of text := scope->>'name';
  asked jsonb := scope->'budget';
  most bigint := (asked->>'nanoUsd')::bigint;
  known tollgate.limit_budgets;
begin
  select * into known from tollgate.limit_budgets where name = of and usage = asked->>'usage';
  if known.spent is null and asked ? 'spentNanoUsd' and
      exists (select 1 from tollgate.limit_epochs where behind_ms > tollgate.now_ms() - 500) then
    asked := asked - 'spentNanoUsd';
  end if;
  if known.name is null or known.nano_usd <> most or (known.spent is null and asked ? 'spentNanoUsd') then
    insert into tollgate.limit_budgets as old (name, usage, spent, nano_usd, warn_nano_usd, until_ms)
      values (of, asked->>'usage', (asked->>'spentNanoUsd')::bigint, most, (asked->>'warnNanoUsd')::bigint,
        (asked->>'untilMs')::bigint)
      on conflict (name, usage) do update set nano_usd = excluded.nano_usd, warn_nano_usd = excluded.warn_nano_usd,
        spent = coalesce(old.spent,
          excluded.spent + case when tollgate.now_ms() - old.unread_ms < 1000 then old.unread else 0 end)
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
      exit when of_id like 'slice:%';
      perform tollgate.limit_spend(hold.names[place], hold.usages[place], -hold.held, -hold.held);
    end loop;
    hold.gone_ms := null;
    perform tollgate.limit_put(hold);
  end if;
  return hold;
end $$;

create function tollgate.limit_new_hold(of_epoch text, of_id text, scopes jsonb) returns tollgate.limit_holds
language plpgsql as $$
declare
  hold tollgate.limit_holds;
  scope jsonb;
begin
  hold.epoch := of_epoch;
  hold.id := of_id;
  hold.requests := 0;
  hold.tokens := 0;
  hold.slots := 0;
  hold.held := 0;
  hold.used := 0;
  for scope in select value from jsonb_array_elements(scopes) loop
    hold.names := hold.names || (scope->>'name');
    hold.grains := hold.grains || 0::bigint;
    hold.usages := hold.usages || coalesce(scope->'budget'->>'usage', '');
  end loop;
  return hold;
end $$;

create function tollgate.limit_tell(of_epoch text, one jsonb, now_ms bigint) returns void language plpgsql as $$
declare
  op text := one->>'op';
  hold tollgate.limit_holds;
  scope jsonb;
  more_tokens bigint;
  of_born bigint := (one->>'bornMs')::bigint;
  less_slots bigint;
  less_held bigint;
begin
  if op = 'spend' then
    -- If the rest is unknown, the ledger has this, too: an outage is over.
    perform tollgate.limit_spend(name, usage, 0, (one->>'nanoUsd')::bigint) from tollgate.limit_budgets
      where name = one->>'name' and usage = one->>'usage' and spent is not null;
    return;
  elsif op = 'rate' then
    perform tollgate.limit_add(one->>'name', now_ms - greatest(0, floor((one->>'agoMs')::numeric)::bigint),
      (one->>'requests')::bigint, (one->>'tokens')::bigint);
    return;
  elsif op = 'return' then
    update tollgate.limit_grains set requests = requests - (one->>'requests')::bigint,
      tokens = tokens - (one->>'tokens')::bigint
      where name = one->>'name' and first_ms = (
        select max(first_ms) from tollgate.limit_grains where name = one->>'name'
          and first_ms > (one->>'atMs')::bigint - 1000 and first_ms <= (one->>'atMs')::bigint
      ) and exists (select from tollgate.limit_state where born_ms = of_born);
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
  elsif op = 'draw' then
    less_slots := least(hold.slots, (one->>'slots')::bigint);
    less_held := least(hold.held, (one->>'heldNanoUsd')::bigint);
    if less_slots > 0 then
      update tollgate.limit_scopes set slots = greatest(0, slots - less_slots) where name = any(hold.names);
    end if;
    for place in 1 .. cardinality(hold.names) loop
      perform tollgate.limit_spend(hold.names[place], hold.usages[place], less_held, (one->>'nanoUsd')::bigint);
    end loop;
    update tollgate.limit_holds set slots = slots - less_slots, held = held - less_held,
      used = (one->>'usedNanoUsd')::bigint where epoch = of_epoch and id = hold.id;
  end if;
end $$;

-- Ms until at most `most` of requests, or tokens, are left; -1 for never.
create function tollgate.limit_wait(of text, is_tokens boolean, most bigint, now_ms bigint) returns bigint
language plpgsql as $$
begin
  return case when most < 0 then -1 else coalesce((
    select last_ms + 60000 - now_ms from (
      select last_ms, first_ms, sum(case when is_tokens then tokens else requests end) over (order by first_ms desc)
        - case when is_tokens then tokens else requests end as newer
      from tollgate.limit_grains where name = of
    ) as each where newer <= most order by first_ms limit 1), 0) end;
end $$;

-- What a node leases beforehand.
create function tollgate.limit_lease(of_epoch text, ask jsonb, now_ms bigint) returns numeric[] language plpgsql as $$
declare
  scope jsonb := ask->'scopes'->0;
  of text := scope->>'name';
  more_requests bigint := (ask->>'requests')::bigint;
  more_tokens bigint := coalesce((ask->>'tokens')::bigint, 0);
  more_slots bigint := (ask->>'slots')::bigint;
  more_held bigint := (ask->>'heldNanoUsd')::bigint;
  hold tollgate.limit_holds;
  budget tollgate.limit_budgets;
  requests_now bigint;
  tokens_now bigint;
  requests_ms bigint;
  tokens_ms bigint;
  slots_now bigint;
  wait bigint := 0;
  refusal int := 0;
  state int := 0;
begin
  select coalesce(sum(requests), 0), coalesce(sum(tokens), 0), max(last_ms) filter (where requests > 0),
    max(last_ms) filter (where tokens > 0) into requests_now, tokens_now, requests_ms, tokens_ms
    from tollgate.limit_grains where name = of;
  select slots into slots_now from tollgate.limit_scopes where name = of;
  if more_requests > 0 then
    if requests_now + more_requests > (scope->>'rpm')::bigint then
      wait := tollgate.limit_wait(of, false, (scope->>'rpm')::bigint - more_requests, now_ms);
      refusal := 2;
    elsif tokens_now + more_tokens > (scope->>'tpm')::bigint then
      wait := tollgate.limit_wait(of, true, (scope->>'tpm')::bigint - more_tokens, now_ms);
      refusal := 3;
    end if;
  end if;
  if more_slots > 0 and more_slots * 8 > (scope->>'concurrency')::bigint - slots_now then refusal := 1; end if;
  if scope ? 'budget' then
    budget := tollgate.limit_budget(scope);
    if more_held > 0 then
      if now_ms < (scope->'budget'->>'fromMs')::bigint or now_ms >= (scope->'budget'->>'untilMs')::bigint then
        state := 3;
      elsif budget.spent is null then
        state := 2;
      elsif budget.spent + budget.reserved + more_held > budget.nano_usd then
        state := 1;
      end if;
    end if;
  end if;
  if refusal = 0 and state = 0 then
    hold := tollgate.limit_hold(of_epoch, ask->>'id');
    if hold.id is null then hold := tollgate.limit_new_hold(of_epoch, ask->>'id', ask->'scopes'); end if;
    if more_requests > 0 then
      perform tollgate.limit_add(of, now_ms + (ask->>'aheadMs')::bigint, more_requests, more_tokens);
      requests_now := requests_now + more_requests;
      tokens_now := tokens_now + more_tokens;
      requests_ms := now_ms + (ask->>'aheadMs')::bigint;
      if more_tokens > 0 then tokens_ms := requests_ms; end if;
    end if;
    if more_slots > 0 then
      update tollgate.limit_scopes set slots = slots + more_slots where name = of;
      slots_now := slots_now + more_slots;
    end if;
    if more_held > 0 and hold.usages[1] <> '' then
      update tollgate.limit_budgets set reserved = reserved + more_held where name = of and usage = hold.usages[1];
      budget.reserved := budget.reserved + more_held;
    end if;
    hold.slots := hold.slots + more_slots;
    hold.held := hold.held + more_held;
    perform tollgate.limit_put(hold);
  end if;
  return array[refusal, slots_now, wait, requests_now, coalesce(requests_ms + 60000 - now_ms, 0), tokens_now,
    coalesce(tokens_ms + 60000 - now_ms, 0), state, coalesce(budget.spent, 0), coalesce(budget.reserved, 0)]::numeric[];
end $$;

create function tollgate.limit_decide(of_epoch text, ask jsonb, now_ms bigint) returns numeric[] language plpgsql as $$
declare
  hold tollgate.limit_holds := tollgate.limit_hold(of_epoch, ask->>'id');
  is_new boolean := hold.id is null;
  is_take boolean := ask->>'op' = 'take';
  wanted_tokens bigint := (ask->>'tokens')::bigint;
  wanted_slots bigint := (ask->>'slots')::bigint;
  wanted_requests bigint := (ask->>'requests')::bigint;
  wanted_held bigint := (ask->>'heldNanoUsd')::bigint;
  likely bigint := (ask->>'likelyNanoUsd')::bigint;
  before tollgate.limit_holds;
  is_granted boolean := true;
  place int := 0;
  scope jsonb;
  of text;
  most bigint;
  figures numeric[] := '{}';
  refusal int;
  used bigint;
  wait bigint;
  state int;
  slots_now bigint;
  requests_now bigint;
  tokens_now bigint;
  requests_ms bigint;
  tokens_ms bigint;
  budget tollgate.limit_budgets;
begin
  for scope in select value from jsonb_array_elements(ask->'scopes') loop
    place := place + 1;
    of := scope->>'name';
    refusal := 0;
    used := 0;
    wait := 0;
    state := 0;
    budget := null;
    select coalesce(sum(requests), 0), coalesce(sum(tokens), 0), max(last_ms) filter (where requests > 0),
      max(last_ms) filter (where tokens > 0) into requests_now, tokens_now, requests_ms, tokens_ms
      from tollgate.limit_grains where name = of;
    if is_take and is_new then
      if wanted_tokens > (scope->>'tpm')::bigint then
        refusal := 3;
        used := tokens_now;
        wait := -1;
      end if;
      most := (scope->>'concurrency')::bigint;
      if refusal = 0 and wanted_slots > 0 and most is not null then
        select slots into slots_now from tollgate.limit_scopes where name = of;
        if slots_now >= most then
          refusal := 1;
          used := slots_now;
          wait := case when most > 0 then 1000 else -1 end;
        end if;
      end if;
      most := (scope->>'rpm')::bigint - 1;
      if refusal = 0 and wanted_requests > 0 and requests_now > most then
        wait := tollgate.limit_wait(of, false, most, now_ms);
        refusal := case when wait = 0 then 0 else 2 end;
        used := requests_now;
      end if;
      most := (scope->>'tpm')::bigint - wanted_tokens;
      if refusal = 0 and tokens_now > most then
        wait := tollgate.limit_wait(of, true, most, now_ms);
        refusal := case when wait = 0 then 0 else 3 end;
        used := tokens_now;
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
        state := 3;
      elsif budget.name is not null and budget.spent is null then
        state := 2;
      elsif likely > 0 and wanted_held > coalesce(hold.held, 0) and
          budget.spent + budget.reserved - coalesce(hold.held, 0) + likely > budget.nano_usd then
        state := 1;
      end if;
    end if;
    is_granted := is_granted and refusal = 0 and state = 0;
    figures := figures || array[refusal, used, wait, requests_now, coalesce(requests_ms + 60000 - now_ms, 0), tokens_now,
      coalesce(tokens_ms + 60000 - now_ms, 0), state, coalesce(budget.spent, 0), coalesce(budget.reserved, 0)]::numeric[];
  end loop;
  if is_granted then
    if is_new then hold := tollgate.limit_new_hold(of_epoch, ask->>'id', ask->'scopes'); end if;
    before := hold;
    hold := tollgate.limit_take(hold, ask, now_ms);
    perform tollgate.limit_put(hold);
    for place in 0 .. cardinality(hold.names) - 1 loop
      figures[10 * place + 4] := figures[10 * place + 4] + hold.requests - before.requests;
      figures[10 * place + 6] := figures[10 * place + 6] + hold.tokens - before.tokens;
      if hold.requests > before.requests then figures[10 * place + 5] := 60000; end if;
      -- Counted with its request, which may have been before.
      if hold.tokens > before.tokens then
        figures[10 * place + 7] := greatest(figures[10 * place + 5], figures[10 * place + 7]);
      end if;
      if hold.usages[place + 1] <> '' then
        figures[10 * place + 10] := figures[10 * place + 10] + hold.held - before.held;
      end if;
    end loop;
  end if;
  return figures;
end $$;

-- Some holds of epochs that aren't heard of; the rest with later calls.
create function tollgate.limit_reap(lease_ms bigint, now_ms bigint) returns void language plpgsql as $$
declare
  silent text;
  hold tollgate.limit_holds;
  more int := 200;
begin
  for silent in select epoch from tollgate.limit_epochs where seen_ms <= now_ms - lease_ms and not is_gone loop
    for hold in select * from tollgate.limit_holds where epoch = silent and gone_ms is null limit more loop
      more := more - 1;
      hold := tollgate.limit_free(hold);
      for place in 1 .. cardinality(hold.names) loop
        exit when hold.id like 'slice:%';
        perform tollgate.limit_spend(hold.names[place], hold.usages[place], hold.held, hold.held);
      end loop;
      hold.gone_ms := now_ms;
      perform tollgate.limit_put(hold);
    end loop;
    exit when more = 0;
    update tollgate.limit_epochs set is_gone = true where epoch = silent;
  end loop;
  delete from tollgate.limit_epochs where is_gone and seen_ms < now_ms - 86400000;
end $$;

create function tollgate.limit_sweep(slice_ms bigint, now_ms bigint) returns void language plpgsql as $$
declare
  hold tollgate.limit_holds;
begin
  update tollgate.limit_state set swept_ms = now_ms;
  delete from tollgate.limit_grains where last_ms <= now_ms - 60000;
  -- What a node that is gone may have spent alone, until it wouldn't have spent more.
  for hold in delete from tollgate.limit_holds where id like 'slice:%' and gone_ms <= now_ms - slice_ms returning * loop
    for place in 1 .. cardinality(hold.names) loop
      perform tollgate.limit_spend(hold.names[place], hold.usages[place], hold.held, hold.used);
    end loop;
  end loop;
  delete from tollgate.limit_holds where gone_ms < now_ms - 86400000;
  delete from tollgate.limit_budgets where until_ms < now_ms - 86400000 and reserved = 0;
end $$;

-- One batch, as JSON. One at a time: each decision depends on the one before. Plans made while a table is empty, and
-- kept, would scan it whole once it has grown.
create function tollgate.ask_limits(batch jsonb) returns text
language plpgsql set enable_seqscan = off set jit = off as $$
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
    insert into tollgate.limit_epochs (epoch, seq, seen_ms) values (batch->>'epoch', 0, now_ms)
      on conflict (epoch) do update set seen_ms = excluded.seen_ms, is_gone = false;
    perform tollgate.limit_reap((batch->>'leaseMs')::bigint, now_ms);
    if now_ms - swept >= least(10000, (batch->>'sliceMs')::bigint) then
      perform tollgate.limit_sweep((batch->>'sliceMs')::bigint, now_ms);
    end if;
  end if;
  if now_ms - born < (batch->>'behindMs')::bigint then
    update tollgate.limit_epochs set behind_ms = now_ms where epoch = batch->>'epoch';
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
      replies := replies || array_to_json(case when one->>'op' = 'lease'
        then tollgate.limit_lease(batch->>'epoch', one, now_ms)
        else tollgate.limit_decide(batch->>'epoch', one, now_ms) end);
    end loop;
  end if;
  with news as (
    update tollgate.limit_budgets set is_news = false where is_news returning name, spent, nano_usd
  )
  select json_agg(json_build_array(name, spent, nano_usd)) into warnings from news;
  return json_build_object('now', now_ms, 'born', born,
    'nodes', (select count(*) from tollgate.limit_epochs where not is_gone), 'isNew', is_new,
    'warnings', coalesce(warnings, '[]'), 'replies', replies)::text;
end $$;
