-- What a node leases of limits beforehand: the same algorithm as `lease`, `draw`, and `return` in src/limits/shared/valkey.lua.

-- Of a lease: nano-dollars that running requests have of it.
alter table tollgate.limit_holds add column used bigint;

alter function tollgate.limit_tell(text, jsonb, bigint) rename to limit_tell_hold;
create function tollgate.limit_tell(of_epoch text, one jsonb, now_ms bigint) returns void language plpgsql as $$
declare
  hold tollgate.limit_holds;
  less_slots bigint;
  less_held bigint;
  of_born bigint := (one->>'bornMs')::bigint;
begin
  if one->>'op' = 'return' then
    update tollgate.limit_grains set requests = requests - (one->>'requests')::bigint,
      tokens = tokens - (one->>'tokens')::bigint
      where name = one->>'name' and first_ms = (
        select max(first_ms) from tollgate.limit_grains where name = one->>'name'
          and first_ms > (one->>'atMs')::bigint - 1000 and first_ms <= (one->>'atMs')::bigint
      ) and exists (select from tollgate.limit_state where born_ms = of_born);
    return;
  elsif one->>'op' <> 'draw' then
    perform tollgate.limit_tell_hold(of_epoch, one, now_ms);
    return;
  end if;
  hold := tollgate.limit_hold(of_epoch, one->>'id');
  if hold.id is null then return; end if;
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
end $$;

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

alter function tollgate.limit_decide(text, jsonb, bigint) rename to limit_decide_hold;
create function tollgate.limit_decide(of_epoch text, ask jsonb, now_ms bigint) returns numeric[] language plpgsql as $$
begin
  return case when ask->>'op' = 'lease' then tollgate.limit_lease(of_epoch, ask, now_ms)
    else tollgate.limit_decide_hold(of_epoch, ask, now_ms) end;
end $$;

create or replace function tollgate.limit_sweep(slice_ms bigint, now_ms bigint) returns void language plpgsql as $$
declare
  hold tollgate.limit_holds;
begin
  update tollgate.limit_state set swept_ms = now_ms;
  delete from tollgate.limit_grains where last_ms <= now_ms - 60000;
  -- What a node that is gone may have spent alone, until it wouldn't have spent more.
  for hold in delete from tollgate.limit_holds where id like 'slice:%' and gone_ms <= now_ms - slice_ms returning * loop
    for place in 1 .. cardinality(hold.names) loop
      perform tollgate.limit_spend(hold.names[place], hold.usages[place], hold.held, coalesce(hold.used, 0));
    end loop;
  end loop;
  delete from tollgate.limit_holds where gone_ms < now_ms - 86400000;
  delete from tollgate.limit_budgets where until_ms < now_ms - 86400000 and reserved = 0;
end $$;
