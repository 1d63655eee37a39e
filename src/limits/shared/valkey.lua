-- Limits of all nodes; see engine.ts. KEYS[1]: prefix of this generation. ARGV[1]: a batch as JSON.
-- Doubles are exact up to 2^53. A budget is smaller, so any larger sum exceeds it, exact or not.
local WINDOW, GRAIN, DAY, SECOND = 60000, 1000, 86400000, 1000
local prefix = KEYS[1]
local batch = cjson.decode(ARGV[1])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local leases, slices, behind = prefix .. ':leases', prefix .. ':slices', prefix .. ':behind'
local holds, gone = prefix .. ':holds:' .. batch.epoch, prefix .. ':gone:' .. batch.epoch
-- Number of the epoch's last batch of reports. Kept after the epoch is gone, because it may resend the batch.
local applied = prefix .. ':applied:' .. batch.epoch
local scopes, dirty, records, changed, warnings = {}, {}, {}, {}, {}
local has_gone = nil

-- A scope: n slots; w grains {first, last, requests, tokens}; r and t their sums;
-- b usages {spent or -1, reserved, last warning level, limit, warn at, until, spent while unknown, its last ms,
-- amount of the last warning}.
local function scope_of(name)
  local scope = scopes[name]
  if scope then return scope end
  local packed = redis.call('GET', prefix .. ':' .. name)
  scope = packed and cmsgpack.unpack(packed) or { n = 0, w = {}, r = 0, t = 0, b = {} }
  local left = 0
  for _, grain in ipairs(scope.w) do
    if grain[2] + WINDOW > now then break end
    scope.r, scope.t, left = scope.r - grain[3], scope.t - grain[4], left + 1
  end
  if left > 0 then
    local window = {}
    for at = left + 1, #scope.w do window[at - left] = scope.w[at] end
    scope.w = window
  end
  scopes[name] = scope
  return scope
end

local function touch(name)
  dirty[name] = true
  return scope_of(name)
end

-- Returns the first ms of their grain.
local function add(scope, at, requests, tokens)
  scope.r, scope.t = scope.r + requests, scope.t + tokens
  for place = #scope.w, 1, -1 do
    local grain = scope.w[place]
    if at - grain[1] >= GRAIN then
      table.insert(scope.w, place + 1, { at, at, requests, tokens })
      return at
    end
    if at >= grain[1] then
      grain[2], grain[3], grain[4] = math.max(grain[2], at), grain[3] + requests, grain[4] + tokens
      return grain[1]
    end
  end
  table.insert(scope.w, 1, { at, at, requests, tokens })
  return at
end

local function correct(scope, first, requests, tokens)
  for place = #scope.w, 1, -1 do
    local grain = scope.w[place]
    if grain[1] == first then
      grain[3], grain[4] = grain[3] + requests, grain[4] + tokens
      scope.r, scope.t = scope.r + requests, scope.t + tokens
      return
    end
  end
end

-- Ms until at most `most` is left; -1 for never.
local function wait_for(scope, column, left, most)
  if most < 0 then return -1 end
  local wait = 0
  for _, grain in ipairs(scope.w) do
    if left <= most then break end
    left, wait = left - grain[column], grain[2] + WINDOW - now
  end
  return wait
end

local function empty_ms(scope, column)
  for place = #scope.w, 1, -1 do
    local grain = scope.w[place]
    if grain[column] > 0 then return grain[2] + WINDOW - now end
  end
  return 0
end

-- True if a node has just reported that the ledger lacks its spend.
local function is_ledger_behind()
  for _, at in ipairs(redis.call('HVALS', behind)) do
    if now - at < SECOND / 2 then return true end
  end
  return false
end

local function usage_of(scope, budget)
  local usage = scope.b[budget.usage]
  if not usage then
    for key, one in pairs(scope.b) do
      if one[6] + DAY < now and one[2] <= 0 then scope.b[key] = nil end
    end
    usage = { -1, 0, 0, budget.nanoUsd, budget.warnNanoUsd, budget.untilMs, 0, 0, 0 }
    scope.b[budget.usage] = usage
  end
  usage[4], usage[5] = budget.nanoUsd, budget.warnNanoUsd
  if usage[1] < 0 and budget.spentNanoUsd and not is_ledger_behind() then
    usage[1] = budget.spentNanoUsd + (now - usage[8] < SECOND and usage[7] or 0)
  end
  return usage
end

-- Nodes may have different versions of the limit and ask in turn, so neither mark falls back to the other limit's.
local function warn(name, key, usage)
  local spent, level, reached = usage[1], 0, 0
  if spent > 0 and spent >= usage[4] then
    level, reached = 2, usage[4]
  elseif spent > 0 and spent >= usage[5] then
    level, reached = 1, usage[5]
  end
  if level > usage[3] or reached > usage[9] then
    warnings[#warnings + 1] = { name, string.format('%.0f', spent), string.format('%.0f', usage[4]) }
  end
  usage[3], usage[9] = math.max(usage[3], level), math.min(math.max(usage[9], reached), math.max(0, spent))
end

local function spend(name, key, held, spent)
  local scope = touch(name)
  local usage = scope.b[key]
  if not usage then return end
  usage[2] = math.max(0, usage[2] - held)
  -- Unknown spend will be read from the ledger, which has this amount within a second.
  if usage[1] >= 0 then
    usage[1] = math.max(0, usage[1] + spent)
  elseif spent > 0 then
    usage[7], usage[8] = spent + (now - usage[8] < SECOND and usage[7] or 0), now
  end
  warn(name, key, usage)
end

-- A record: k scopes; g their grains, 0 for none; u their usages, '' for none; q requests; t tokens; n slots; h held;
-- r for a lease, the part used by running requests;
-- z if its epoch is gone: 'spent', or 'slice' if the record is kept unchanged.
local function record_of(id)
  local record = records[id]
  if record ~= nil then return record or nil end
  local packed = redis.call('HGET', holds, id)
  if not packed then
    if has_gone == nil then has_gone = redis.call('EXISTS', gone) == 1 end
    packed = has_gone and redis.call('HGET', gone, id)
  end
  record = packed and cmsgpack.unpack(packed) or false
  records[id] = record
  return record or nil
end

local function put(id, record)
  records[id], changed[id] = record, true
end

local function new_record(of)
  local record = { k = {}, g = {}, u = {}, q = 0, t = 0, n = 0, h = 0 }
  for at, scope in ipairs(of) do
    record.k[at], record.g[at], record.u[at] = scope.name, 0, scope.budget and scope.budget.usage or ''
  end
  return record
end

local function take(record, want)
  local requests = math.max(0, want.requests - record.q)
  local tokens = math.max(0, (want.tokens or 0) - record.t)
  local slots = math.max(0, want.slots - record.n)
  local held = math.max(0, want.heldNanoUsd - record.h)
  for at, name in ipairs(record.k) do
    local scope = touch(name)
    if requests > 0 then
      record.g[at] = add(scope, now, requests, tokens)
    elseif tokens > 0 then
      correct(scope, record.g[at], 0, tokens)
    end
    scope.n = scope.n + slots
    local usage = scope.b[record.u[at]]
    if usage then usage[2] = usage[2] + held end
  end
  record.q, record.t, record.n, record.h = record.q + requests, record.t + tokens, record.n + slots, record.h + held
end

local function free(record)
  if record.n == 0 then return end
  for _, name in ipairs(record.k) do
    local scope = touch(name)
    scope.n = math.max(0, scope.n - record.n)
  end
  record.n = 0
end

-- The epoch is back, so the record counts as held again.
local function revive(record)
  local state = record.z
  record.z = nil
  if state ~= 'spent' then return end
  for at, name in ipairs(record.k) do
    if record.u[at] ~= '' then spend(name, record.u[at], -record.h, -record.h) end
  end
end

local function return_rates(scope, at, requests, tokens)
  for place = #scope.w, 1, -1 do
    local first = scope.w[place][1]
    if at >= first then
      if at - first < GRAIN then correct(scope, first, -requests, -tokens) end
      return
    end
  end
end

redis.call('SET', prefix .. ':born', string.format('%.0f', now), 'NX', 'PX', DAY)
local born = redis.call('GET', prefix .. ':born')

local told = {
  hold = function(one)
    local record = record_of(one.id)
    if record then revive(record) else record = new_record(one.scopes) end
    for at, scope in ipairs(one.scopes) do
      if scope.budget and record.u[at] == scope.budget.usage then usage_of(touch(scope.name), scope.budget) end
    end
    take(record, one)
    put(one.id, record)
  end,
  ['end'] = function(one)
    local record = record_of(one.id)
    if not record then return end
    revive(record)
    free(record)
    local tokens = (one.isCanceled and 0 or one.tokens or record.t) - record.t
    for at, name in ipairs(record.k) do
      correct(touch(name), record.g[at], one.isCanceled and -record.q or 0, tokens)
      if record.u[at] ~= '' then spend(name, record.u[at], record.h, one.nanoUsd) end
    end
    put(one.id, false)
  end,
  free = function(one)
    local record = record_of(one.id)
    if not record then return end
    free(record)
    put(one.id, record)
  end,
  lower = function(one)
    local record = record_of(one.id)
    if not record or record.z or record.h <= one.heldNanoUsd then return end
    for at, name in ipairs(record.k) do
      if record.u[at] ~= '' then spend(name, record.u[at], record.h - one.heldNanoUsd, 0) end
    end
    record.h = one.heldNanoUsd
    put(one.id, record)
  end,
  draw = function(one)
    local record = record_of(one.id)
    if not record then return end
    revive(record)
    local slots, held = math.min(record.n, one.slots), math.min(record.h, one.heldNanoUsd)
    for at, name in ipairs(record.k) do
      local scope = touch(name)
      scope.n = math.max(0, scope.n - slots)
      if record.u[at] ~= '' then spend(name, record.u[at], held, one.nanoUsd) end
    end
    record.n, record.h, record.r = record.n - slots, record.h - held, one.usedNanoUsd
    put(one.id, record)
  end,
  ['return'] = function(one)
    if one.bornMs == tonumber(born) then return_rates(touch(one.name), one.atMs, one.requests, one.tokens) end
  end,
  -- If the spend is unknown, the ledger includes this amount, because an outage has ended.
  spend = function(one)
    local usage = scope_of(one.name).b[one.usage]
    if usage and usage[1] >= 0 then spend(one.name, one.usage, 0, one.nanoUsd) end
  end,
  rate = function(one) add(touch(one.name), now - math.max(0, one.agoMs), one.requests, one.tokens) end,
}

local function rate_refusal(scope, limits, ask)
  if limits.tpm and ask.tokens and ask.tokens > limits.tpm then return 3, scope.t, -1 end
  if limits.concurrency and ask.slots > 0 and scope.n >= limits.concurrency then
    return 1, scope.n, limits.concurrency > 0 and SECOND or -1
  end
  if limits.rpm and ask.requests > 0 then
    local wait = wait_for(scope, 3, scope.r, limits.rpm - ask.requests)
    if wait ~= 0 then return 2, scope.r, wait end
  end
  if limits.tpm and ask.tokens then
    local wait = wait_for(scope, 4, scope.t, limits.tpm - ask.tokens)
    if wait ~= 0 then return 3, scope.t, wait end
  end
  return 0, 0, 0
end

local function budget_state(usage, budget, ask, record)
  if ask.op == 'take' and not record and (now < budget.fromMs or now >= budget.untilMs) then return 3 end
  if usage[1] < 0 then return 2 end
  local held = record and record.h or 0
  if ask.likelyNanoUsd == 0 or ask.heldNanoUsd <= held then return 0 end
  if usage[1] + usage[2] - held + ask.likelyNanoUsd > usage[4] then return 1 end
  return 0
end

local function figures_of(scope, state)
  local usage = state[5] or { 0, 0 }
  return string.format('%d,%.0f,%d,%.0f,%d,%.0f,%d,%d,%.0f,%.0f', state[1], state[2], state[3], scope.r,
    empty_ms(scope, 3), scope.t, empty_ms(scope, 4), state[4], math.max(0, usage[1]), usage[2])
end

local function lease(ask)
  local limits, record = ask.scopes[1], record_of(ask.id)
  local scope, budget, most = touch(limits.name), limits.budget, limits.concurrency
  local state = { 0, 0, 0, 0 }
  if ask.requests > 0 then state[1], state[2], state[3] = rate_refusal(scope, limits, ask) end
  if most and ask.slots > 0 and ask.slots * 8 > most - scope.n then state[1] = 1 end
  local usage = budget and usage_of(scope, budget)
  if usage and ask.heldNanoUsd > 0 then
    if now < budget.fromMs or now >= budget.untilMs then
      state[4] = 3
    elseif usage[1] < 0 then
      state[4] = 2
    elseif usage[1] + usage[2] + ask.heldNanoUsd > usage[4] then
      state[4] = 1
    end
  end
  if state[1] == 0 and state[4] == 0 then
    if record then revive(record) else record = new_record(ask.scopes) end
    if ask.requests > 0 then add(scope, now + ask.aheadMs, ask.requests, ask.tokens) end
    scope.n, record.n = scope.n + ask.slots, record.n + ask.slots
    if usage then usage[2], record.h = usage[2] + ask.heldNanoUsd, record.h + ask.heldNanoUsd end
    put(ask.id, record)
  end
  state[2], state[5] = scope.n, usage
  return figures_of(scope, state)
end

local function decide(ask)
  local record, is_granted, states = record_of(ask.id), true, {}
  if record then revive(record) end
  for at, limits in ipairs(ask.scopes) do
    local scope = scope_of(limits.name)
    local state = { 0, 0, 0, 0 }
    if ask.op == 'take' and not record then state[1], state[2], state[3] = rate_refusal(scope, limits, ask) end
    if limits.budget then
      local is_same = not record or record.u[at] == limits.budget.usage
      local usage = is_same and usage_of(touch(limits.name), limits.budget) or scope.b[record.u[at]]
      state[4] = usage and budget_state(usage, limits.budget, ask, record) or 0
      if usage and usage[1] >= 0 then warn(limits.name, is_same and limits.budget.usage or record.u[at], usage) end
      state[5] = usage
    end
    is_granted = is_granted and state[1] == 0 and state[4] == 0
    states[at] = state
  end
  if is_granted then
    record = record or new_record(ask.scopes)
    take(record, ask)
    put(ask.id, record)
  end
  local figures = {}
  for at, limits in ipairs(ask.scopes) do
    figures[at] = figures_of(scope_of(limits.name), states[at])
  end
  return table.concat(figures, ',')
end

-- Marks some holds of silent epochs as spent; later calls do the rest.
local function reap()
  local more = 200
  for _, epoch in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', now - batch.leaseMs)) do
    local theirs, given_up = prefix .. ':holds:' .. epoch, prefix .. ':gone:' .. epoch
    local some = redis.call('HRANDFIELD', theirs, more, 'WITHVALUES')
    for at = 1, #some, 2 do
      local record = cmsgpack.unpack(some[at + 1])
      free(record)
      record.z = 'slice'
      if string.sub(some[at], 1, 6) == 'slice:' then
        redis.call('ZADD', slices, now, epoch)
      else
        record.z = 'spent'
        for place, name in ipairs(record.k) do
          if record.u[place] ~= '' then spend(name, record.u[place], record.h, record.h) end
        end
      end
      redis.call('HSET', given_up, some[at], cmsgpack.pack(record))
      redis.call('HDEL', theirs, some[at])
      redis.call('PEXPIRE', given_up, DAY)
    end
    more = more - #some / 2
    if more == 0 then return end
    redis.call('ZREM', leases, epoch)
  end
end

-- Drops leases of silent nodes once these nodes can't have spent more of them.
local function drop_slices()
  local epoch = redis.call('ZRANGEBYSCORE', slices, '-inf', now - batch.sliceMs, 'LIMIT', 0, 1)[1]
  if not epoch then return end
  local given_up = prefix .. ':gone:' .. epoch
  local all = redis.call('HGETALL', given_up)
  for at = 1, #all, 2 do
    local record = cmsgpack.unpack(all[at + 1])
    if record.z == 'slice' then
      for place, name in ipairs(record.k) do spend(name, record.u[place], record.h, record.r or 0) end
      redis.call('HDEL', given_up, all[at])
    end
  end
  redis.call('ZREM', slices, epoch)
end

local seen = redis.call('ZSCORE', leases, batch.epoch)
if not seen or now - seen > batch.leaseMs / 10 then
  redis.call('ZADD', leases, now, batch.epoch)
  for _, key in ipairs({ prefix .. ':born', leases, slices, holds, applied }) do redis.call('PEXPIRE', key, DAY) end
  reap()
  drop_slices()
end
if batch.behindMs and now - born < batch.behindMs then
  redis.call('HSET', behind, batch.epoch, now)
  redis.call('PEXPIRE', behind, SECOND)
end
if #batch.told > 0 then
  local last = redis.call('GET', applied)
  if not last or tonumber(last) < batch.seq then
    for _, one in ipairs(batch.told) do told[one.op](one) end
    redis.call('SET', applied, batch.seq, 'PX', DAY)
  end
end
local replies = {}
local is_new = not seen or now - seen > batch.leaseMs
if not is_new and now - born >= batch.youngMs then
  for at, ask in ipairs(batch.asks) do replies[at] = ask.op == 'lease' and lease(ask) or decide(ask) end
end
for name in pairs(dirty) do redis.call('SET', prefix .. ':' .. name, cmsgpack.pack(scopes[name]), 'PX', DAY) end
for id in pairs(changed) do
  local record = records[id]
  if record then redis.call('HSET', holds, id, cmsgpack.pack(record)) else redis.call('HDEL', holds, id) end
  if has_gone then redis.call('HDEL', gone, id) end
end
local head = string.format('%.0f,%s,%d,%d', now, born, redis.call('ZCARD', leases), is_new and 1 or 0)
return { head, warnings, replies }
