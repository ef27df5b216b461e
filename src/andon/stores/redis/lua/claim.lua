-- Hand out ready tasks of the queues asked, in their order, each stamped with a new run: id,
-- definition, status and fence of each. A repeat with the same token gets what it got, as far as those runs
-- are active; the second element of the reply is then "again". The fourth says when limited
-- rates let more through, the fifth which queues need a grant first. About 20 microseconds a task.
-- Most claims never come here: see `claim_plain`.
local refused = refuse_strangers()
if refused then return refused end

local SCAN_BUDGET = 2000
local MOST_ASKED_FOR = 50
local worker, token, limit, lease_ms, room = A[1], A[2], A[3], A[4], A[5]
local lease_until = now + lease_ms
local LEASE_UNTIL = int(lease_until)
local token_key = P .. 'claim:' .. token

local given = {}
for id in string.gmatch(call('GET', token_key) or '', '[^\n]+') do given[#given + 1] = id end
if #given > 0 then
  local again = {now, 'again'}
  for _, id in ipairs(given) do
    local found = parts(id)
    local by = found[5] == 'active' and found[3] and cmsgpack.unpack(found[3])[C_TOKEN]
    if by == token or by == token .. '~' then hand_out(again, id, found) end
  end
  if #again > 2 then return again end
end

local grants = A[7] or {} -- queue to what was granted of its limits, where partitions share them
local limited = {} -- queues that wait for such a grant: what limits them, then keys they ask for
local refills = {} -- queue and ms until its rate limit lets the next claim through, in turn
local claimed = {now, 'claim', #given, refills, limited}
local taken = {}

-- A queue's rate limit: a bucket that fills with time and is drawn from by claims.
local function tokens_of(queue, config)
  local found = call('HMGET', P .. 'bucket:' .. queue, 'tokens', 'at')
  if not found[1] then return config.burst end
  return math.min(config.burst, found[1] + (now - found[2]) * config.rate / 1000)
end

local function allowed(queue, config, wanted)
  if config.paused == 1 then return 0 end
  if config.concurrent then
    wanted = math.min(wanted, config.concurrent - call('ZCARD', list_of(queue, 'active')))
  end
  if config.rate then wanted = math.min(wanted, math.floor(tokens_of(queue, config) + 1e-9)) end
  return wanted
end

-- A queue whose limits all partitions share is claimed from with a grant only.
local function ask_for_grant(queue, config)
  if config.paused == 1 then return end
  local row = {queue, config.concurrent or -1, tostring(config.rate or ''), config.burst or 0,
    config.per_key or -1}
  local seen, any = {}, false
  for _, name in ipairs(call('SMEMBERS', P .. 'lanes:' .. queue)) do
    for _, member in ipairs(call('ZRANGE', lane_of(queue, name), 0, MOST_ASKED_FOR - 1)) do
      any = true
      local key = config.per_key
        and entry_of(call('HGET', P .. 'task:' .. id_of(member), 'x'))[KEY]
      if key and not seen[key] then
        seen[key] = true
        row[#row + 1] = key
      end
    end
  end
  if any then limited[#limited + 1] = row end
end

-- The first `most` entries of the queue's lanes that have room, in their common order: of one lane its
-- members, of several a score, a member and a name each.
local function candidates(queue, most)
  local found, names = {}, call('SMEMBERS', P .. 'lanes:' .. queue)
  if #names == 1 then
    local name = names[1]
    if room and (room[name] or 1) <= 0 then return found, name end
    return call('ZRANGE', lane_of(queue, name), 0, most - 1), name
  end
  for _, name in ipairs(names) do
    if not room or (room[name] or 1) > 0 then
      local entries = call('ZRANGE', lane_of(queue, name), 0, most - 1, 'WITHSCORES')
      for i = 1, #entries, 2 do
        found[#found + 1] = {tonumber(entries[i + 1]), entries[i], name}
      end
    end
  end
  table.sort(found, function(a, b)
    if a[1] ~= b[1] then return a[1] < b[1] end
    return a[2] < b[2]
  end)
  return found
end

-- Cells and events are packed from parts, most of which the runs of a claim share: a cell is an array
-- of ten, an event one of six. A short string is packed as its length and itself.
local cell_ends = cmsgpack.pack(worker, token, now, lease_until, now, 0, '')
local NOW, fence_and_ends = int(now), cmsgpack.pack(now) .. cell_ends
local last_before, last_number, cell_begins, event_begins
local function packed(text)
  local size = #text
  return size < 32 and string.char(160 + size) .. text or cmsgpack.pack(text)
end

local function stamp(queue, task, id, found, x)
  local before, rest, apart = string.match(found[4], '^(%d+)( %d+ %d+(h?) .*)$')
  local number = x[RUN_NUMBER]
  if before ~= last_before or number ~= last_number then
    last_before, last_number = before, number
    cell_begins = '\154' .. cmsgpack.pack(before + 1)
    event_begins = 'C\150' .. cmsgpack.pack(before + 1, now, number, worker)
  end
  local fence, fence_given, cell_rest = x[FENCE] + 1, NOW, fence_and_ends
  if fence > now then
    fence_given, cell_rest = int(fence), cmsgpack.pack(fence) .. cell_ends
  end
  local run = packed(token .. '-' .. int(#taken))
  local timer = LEASE_UNTIL
  if x[FIRST_LIMIT] or x[DEAD_AT] then
    timer = math.min(lease_until, now + (x[FIRST_LIMIT] or lease_ms), x[DEAD_AT] or lease_until)
  end
  call('HSET', task, 'st', 'active', 'v', int(before + 1) .. rest, 'c', cell_begins .. run .. cell_rest)
  arm(id, timer)
  local event = event_begins .. run .. packed(id)
  log[#log + 1] = event
  if apart ~= '' then keep_apart(id, event) end
  hint('task', id)
  if x[UNIQUE] and x[FREES_ON_CLAIM] then let_go_of(x[UNIQUE], id) end
  if x[KEY] then run_of_key(queue, x[KEY], 1) end
  local n = #claimed
  claimed[n + 1], claimed[n + 2], claimed[n + 3], claimed[n + 4] = id, found[1], found[2], fence_given
end

-- Whether a body begins as a packed map does. What is damaged further in is found by who decodes it.
local function is_map(body)
  local first = string.byte(body or '')
  return first and (first >= 0x80 and first <= 0x8f or first == 0xde or first == 0xdf)
end

-- What becomes of an entry whose turn it is: "take" it, "pass" it over, or it is "gone".
local function decide(queue, config, grant, id, x, member, found)
  if not is_map(found[1]) or not is_map(found[2]) then
    set_aside(id)
    return 'gone'
  end
  if x[DEAD_AT] and x[DEAD_AT] <= now then
    arm(id, now) -- not to be handed out any more; its timer expires it
    return 'gone'
  end
  local key = config.per_key and x[KEY]
  if not key then return 'take' end
  if grant then
    local left = grant.keys[key] or 0
    if left <= 0 then return 'pass' end
    grant.keys[key] = left - 1
  elseif tonumber(call('HGET', P .. 'running:' .. queue, key) or 0) >= config.per_key then
    admit(queue, key, -1)
    park(queue, key, x[SCORE], member)
    return 'gone'
  end
  return 'take'
end

local function claim_queue(queue, config, most, grant)
  local took, looked, passed = 0, 0, 0
  local over = {}
  local pending, active = list_of(queue, 'pending'), list_of(queue, 'active')
  while took < most and looked < SCAN_BUDGET do
    local entries, only = candidates(queue, most - took + passed)
    if #entries <= passed then break end
    local gone = {}
    for _, entry in ipairs(entries) do
      if took >= most then break end
      local member, name = entry, only
      if not only then member, name = entry[2], entry[3] end
      if not over[member] and not (room and (room[name] or 1) <= 0) then
        looked = looked + 1
        local id = id_of(member)
        local task = P .. 'task:' .. id
        local found = call('HMGET', task, 'd', 's', 'x', 'v')
        local x = entry_of(found[3])
        local verdict = decide(queue, config, grant, id, x, member, found)
        if verdict == 'pass' then
          over[member] = true
          passed = passed + 1
        else
          local of = gone[name]
          if of then of[#of + 1] = member else gone[name] = {member} end
        end
        if verdict == 'take' then
          taken[#taken + 1] = id
          stamp(queue, task, id, found, x)
          take_out(pending, id)
          put_in(active, x[CREATED], id)
          if room and room[name] then room[name] = room[name] - 1 end
          took = took + 1
        end
      end
    end
    for name, members in pairs(gone) do
      in_turn('ZREM', lane_of(queue, name), members)
      tidy_lane(queue, name)
    end
  end
  flush()
  return took
end

local function claim_within_limits(queue, config, wanted)
  local grant = grants[queue]
  if config.spread then
    if grant then
      claim_queue(queue, config, math.min(grant.most, wanted), grant)
    else
      ask_for_grant(queue, config)
    end
    return
  end
  local most = allowed(queue, config, wanted)
  if most <= 0 then return end
  local took = claim_queue(queue, config, most)
  if config.rate and took > 0 then
    local left = string.format('%.17g', tokens_of(queue, config) - took)
    call('HSET', P .. 'bucket:' .. queue, 'tokens', left, 'at', int(now))
  end
end

local function note_refill(queue, config)
  if not config.rate or config.spread or call('EXISTS', P .. 'lanes:' .. queue) == 0 then return end
  local short = 1 - tokens_of(queue, config)
  if short > 0 then
    refills[#refills + 1] = queue
    refills[#refills + 1] = math.ceil(short / config.rate * 1000)
  end
end

for _, id in ipairs(given) do taken[#taken + 1] = id end -- so that no run id is used twice
for _, queue in ipairs(A[6]) do
  local wanted = limit - (#taken - #given)
  if wanted <= 0 then break end
  local config = config_of(queue)
  claim_within_limits(queue, config, wanted)
  note_refill(queue, config)
end
if #taken > #given then
  local ids = table.concat(taken, '\n')
  call('SET', token_key, ids, 'PX', WINDOW_MS)
  if A[8] then -- claimed with a grant: a repeat of the whole claim finds these too
    local first = call('GET', P .. 'claim:' .. A[8])
    call('SET', P .. 'claim:' .. A[8], first and first .. '\n' .. ids or ids, 'PX', WINDOW_MS)
  end
end
finish()
return claimed
