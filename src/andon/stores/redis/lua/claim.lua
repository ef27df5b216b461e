-- Claim ready tasks of the requested queues, in the order of the queues. Each task gets a new run. The
-- reply has id, definition, status and fence of each. A repeat with the same token gets the same runs
-- again, as far as they are still active; the second element of the reply is then "again". The fourth
-- says when rate limits let more through, the fifth which queues need a grant first, the sixth which
-- kinds the memo of the worker's code does not know; each is nil if there are none. The seventh is 1 if
-- a repeat with the same token and the number of runs that it has brought (KNOWN) may bring more.
-- Most claims never come here: see `claim_plain`.
local refused = refuse_strangers()
if refused then return refused end

local CODE, KNOWN, SPREAD = 11, 12, 13
local SCAN_BUDGET, MOST_ASKED_FOR, MOST_PASSED, MOST_UNDECIDED = 2000, 50, 100, 1000
local MANY_HEADS, FEW_KINDS = 250, 200
local FULL_MS = 1000 -- for how long a key that is full in all partitions is skipped
local worker, token, limit, lease_ms, room = A[1], A[2], A[3], A[4], A[5]
local can, cannot = A[CODE] and P .. 'can:' .. A[CODE], A[CODE] and P .. 'cannot:' .. A[CODE]
local token_key = P .. 'claim:' .. token

local given = {}
for id in string.gmatch(call('GET', token_key) or '', '[^\n]+') do given[#given + 1] = id end
if #given ~= (A[KNOWN] or 0) then
  local again = {now, 'again'}
  for _, id in ipairs(given) do
    local found = parts(id)
    local cell = found[5] == 'active' and cell_of(found[3])
    local by = cell and cell[C_TOKEN]
    if by and (by == token or by == token .. '~') then hand_out(again, id, found) end
  end
  if #again > 2 then return again end
end

local grants = A[7] or {} -- by queue: what was granted of its limits, where partitions share them
local limited = {} -- queues that wait for such a grant: what limits them, then keys they ask for
local refills = {} -- queue and ms until its rate limit lets the next claim through, in turn
local undecided, is_undecided = {}, {}
local claimed = {now, 'claim', #given, refills, limited, undecided, 0}
local function say_more() claimed[7] = 1 end
local taken = {}

-- The requested queues that have anything ready, in the order requested. Many come as one text, in
-- which queues that have nothing ready are skipped.
local function with_something(asked)
  local found, ready = {}, P .. 'ready'
  if type(asked) == 'table' then
    if #asked <= 1 then return asked end
    local are = call('HMGET', ready, unpack(asked))
    for i, queue in ipairs(asked) do
      if are[i] then found[#found + 1] = queue end
    end
    return found
  end
  local place = {}
  for _, queue in ipairs(call('HKEYS', ready)) do
    place[queue] = string.find(asked, '\n' .. queue .. '\n', 1, true)
    if place[queue] then found[#found + 1] = queue end
  end
  table.sort(found, function(a, b) return place[a] < place[b] end)
  return found
end

-- Which kinds the claim's code may have, as the memo says (`lifecycle.routing.may_claim`): the answers
-- of one look at those that it may not have. Most that are in its way are among them.
local function may_have(kind)
  if call('SISMEMBER', can, kind) == 1 then return true end
  if not is_undecided[kind] and #undecided < MOST_UNDECIDED then
    is_undecided[kind] = true
    undecided[#undecided + 1] = kind
  end
  return false
end

-- The same of a kind that is not known to be barred.
local function is_claimable(kind)
  return call('SISMEMBER', cannot, kind) == 0 and may_have(kind)
end

local function has_room(kind)
  if not room then return true end
  local left = room[kind]
  if left == nil then left = room[name_of(kind)] end
  return (left or 1) > 0
end

local function comes_before(a, b)
  if not b or a.score ~= b.score then return not b or a.score < b.score end
  return a.member < b.member
end

-- A lane by what is first in it; nil if it has gone.
local function lane_at(queue, kind)
  local key = lane_of(queue, kind)
  local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
  if not first[1] then return nil end
  return {kind = kind, key = key, head = head_of(first[1], kind), member = string.sub(first[1], 1, 12),
    score = tonumber(first[2])}
end

-- The lanes among these kinds that the claim may take from, by what is first in each.
local function lanes_of(queue, kinds)
  local found, at = {}, 0
  for _, kind in ipairs(kinds) do
    local lane = has_room(kind) and may_have(kind) and lane_at(queue, kind)
    if lane then found[#found + 1] = lane end
  end
  table.sort(found, comes_before)
  return function()
    at = at + 1
    return found[at]
  end
end

-- The lanes of a queue that the claim may take from, by what is first in each. The first are found by
-- going through all in that order; if many are in the way that its code may not have, only those that
-- it may are looked at.
local function open_lanes(queue)
  local heads, page, kinds, at, from, size = heads_of(queue), {}, {}, 0, 0, FEW_LANES
  local barred, others, is_done = {}, nil, {}
  local noted = call('HGET', P .. 'ready', queue)
  if not noted then return function() end end
  local only = only_kind(noted)
  if only then
    return function()
      local kind = only
      only = nil
      if not kind or not has_room(kind) or can and not is_claimable(kind) then return nil end
      local lane = lane_at(queue, kind)
      if not lane then call('HDEL', P .. 'ready', queue) end -- it is gone
      return lane
    end
  end
  return function()
    while not others do
      if at >= #page then
        if cannot and from == FEW_LANES then
          local left = {}
          for _, kind in ipairs(call('SDIFF', kinds_of(queue), cannot)) do
            if not is_done[kind] then left[#left + 1] = kind end
          end
          if #left <= FEW_KINDS then
            others = lanes_of(queue, left)
            break
          end
        end
        page = call('ZRANGE', heads, from, from + size - 1)
        if #page == 0 then return nil end
        at, from, size, kinds = 0, from + size, MANY_HEADS, {}
        local sub = string.sub
        for i = 1, #page do kinds[i] = sub(page[i], 13) end
        if cannot then barred = call('SMISMEMBER', cannot, unpack(kinds)) end
      end
      at = at + 1
      while barred[at] == 1 do at = at + 1 end
      local kind = kinds[at]
      if kind then
        is_done[kind] = true
        if has_room(kind) and (not can or may_have(kind)) then
          local lane = lane_at(queue, kind)
          if lane then return lane end
          call('ZREM', heads, page[at]) -- of a lane that is gone
          count_lanes(queue, tonumber(call('HGET', P .. 'ready', queue) or 0), {}, {kind})
        end
      end
    end
    return others()
  end
end

-- The next entry of a lane becomes the one it stands at; false after its last.
local function step(lane, most)
  local entries, at = lane.entries, lane.at + 2
  if at > #entries then
    if lane.ends then return false end
    entries = call('ZRANGE', lane.key, lane.read, lane.read + most - 1, 'WITHSCORES')
    if #entries == 0 then return false end
    lane.entries, lane.read, lane.ends, at = entries, lane.read + #entries / 2, #entries < 2 * most, 1
  end
  lane.at, lane.member, lane.score = at, entries[at], tonumber(entries[at + 1])
  return true
end

-- The tasks of a queue that the claim may take, in the common order of its lanes: each its member and
-- its lane. Nothing is taken out of a lane meanwhile. A lane is read only when its turn comes.
local function candidates(queue, most)
  local next_lane = open_lanes(queue)
  local waiting, open, lane, few = next_lane(), {}, nil, math.min(most, 20)
  return function()
    if lane then
      local single = not waiting and not open[1]
      if not (has_room(lane.kind) and step(lane, single and most or few)) then
        lane = nil
      elseif not (comes_before(lane, waiting) and comes_before(lane, open[1])) then
        local place = 1
        while open[place] and comes_before(open[place], lane) do place = place + 1 end
        table.insert(open, place, lane)
        lane = nil
      end
    end
    while not lane do
      if waiting and comes_before(waiting, open[1]) then
        lane, waiting = waiting, next_lane()
        lane.entries, lane.at, lane.read = {}, -1, 0
        if not step(lane, waiting and few or most) then lane = nil end
      elseif open[1] then
        lane = table.remove(open, 1)
      else
        return nil
      end
      if lane and not has_room(lane.kind) then lane = nil end
    end
    return lane.member, lane
  end
end

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

-- A queue whose limits all partitions share is claimed from with a grant only. It asks for the keys of
-- its first tasks; a sixth part of 1 says that there are others.
local function ask_for_grant(queue, config)
  if config.paused == 1 then return end
  local row = {queue, config.concurrent or -1, tostring(config.rate or ''), config.burst or 0,
    config.per_key or -1, 0}
  local seen, any, looked = {}, false, 0
  for member in candidates(queue, MOST_ASKED_FOR) do
    any, looked = true, looked + 1
    local x = config.per_key and entry_of(fields_of(id_of(member), 'x')[1])
    local key = x and x[KEY]
    if key and not seen[key] then
      seen[key] = true
      row[#row + 1] = key
    end
    if not config.per_key then break end
    if looked >= SCAN_BUDGET or #row >= 6 + MOST_ASKED_FOR then
      row[6] = 1
      break
    end
  end
  if any and #undecided == 0 then limited[#limited + 1] = row end
end

-- Keys that were full in all partitions wait outside for a while, so that they hide nothing. No move
-- here tells when a run of theirs ends in another partition, so they are let in again to be asked for.
local function set_full(queue, key)
  call('ZADD', P .. 'full', now + FULL_MS, cmsgpack.pack({queue, key}))
  say_more()
end

local function let_full_in()
  local due = call('ZRANGEBYSCORE', P .. 'full', '-inf', now, 'LIMIT', 0, MOST_ASKED_FOR)
  for _, packed in ipairs(due) do
    local of = cmsgpack.unpack(packed)
    call('ZREM', P .. 'full', packed)
    promote(of[1], of[2], 1000)
  end
  settle_heads()
  local first = call('ZRANGE', P .. 'full', 0, 0, 'WITHSCORES')
  if first[1] then
    refills[#refills + 1] = cmsgpack.unpack(first[1])[1]
    refills[#refills + 1] = math.max(tonumber(first[2]) - now, 1)
  end
end

begin_claim(worker, token, now + lease_ms)

local function claim_task(queue, id, found, x)
  local before, rest, apart = string.match(found[4], '^(%d+)( %d+ %x+(h?) .*)$')
  stamp(id, x, before, rest, #taken)
  put_stamp(P .. 'task:' .. id)
  arm(id, run_timer)
  log[#log + 1] = run_event
  if apart ~= '' then keep_apart(id, run_event) end
  hint('run', id)
  if x[UNIQUE] and x[FREES_ON_CLAIM] then let_go_of(x[UNIQUE], id) end
  if x[KEY] then run_of_key(queue, x[KEY], 1) end
  local n = #claimed
  claimed[n + 1], claimed[n + 2], claimed[n + 3], claimed[n + 4] = id, found[1], found[2], run_fence
end

-- Whether a body begins as a packed map does. What is damaged further in is found by who decodes it.
local function is_map(body)
  local first = string.byte(body or '')
  return first and (first >= 0x80 and first <= 0x8f or first == 0xde or first == 0xdf)
end

-- What becomes of an entry whose turn it is: "take" it, "pass" it over, or it is "gone" or "damaged".
local function decide(queue, config, grant, id, x, member, found, passed)
  if not found[4] and not found[3] then return 'gone' end -- there is no such record
  if not x or not parts_of(found[4] or '') or not is_map(found[1]) or not is_map(found[2]) then
    return 'damaged'
  end
  if x[DEAD_AT] and x[DEAD_AT] <= now then
    arm(id, now) -- not to be handed out any more; its timer expires it
    return 'gone'
  end
  local key = config.per_key and x[KEY]
  if not key then return 'take' end
  if grant then
    local left = grant.keys[key]
    if not left then return 'pass' end -- it was not asked for
    if left > 0 then
      grant.keys[key] = left - 1
      return 'take'
    end
    if not grant.is_cut and passed < MOST_PASSED then return 'pass' end
    admit(queue, key, -1)
    park(queue, key, x[SCORE], member)
    set_full(queue, key)
    return 'gone'
  elseif tonumber(call('HGET', P .. 'running:' .. queue, key) or 0) >= config.per_key then
    admit(queue, key, -1)
    park(queue, key, x[SCORE], member)
    return 'gone'
  end
  return 'take'
end

local function claim_queue(queue, config, most, grant)
  local took, looked, passed, damaged = 0, 0, 0, {}
  local pending, active = list_of(queue, 'pending'), list_of(queue, 'active')
  local of = changed[queue] or {}
  changed[queue] = of
  local next_one = candidates(queue, most)
  while took < most and #undecided == 0 do
    local member, lane = next_one()
    if not member or #undecided > 0 then break end
    looked = looked + 1
    local id = id_of(member)
    local found = fields_of(id, 'd', 's', 'x', 'v')
    local x = entry_of(found[3])
    local verdict = decide(queue, config, grant, id, x, member, found, passed)
    if verdict == 'pass' then
      passed = passed + 1
    else
      if of[lane.kind] == nil then of[lane.kind] = lane.head and string.sub(lane.head, 1, 12) end
      take_out(lane.key, member)
      if verdict == 'damaged' or not found[3] then
        take_out(pending, id)
        take_out(TIMERS, id)
      end
      if verdict == 'damaged' then damaged[#damaged + 1] = id end
    end
    if verdict == 'take' then
      taken[#taken + 1] = id
      claim_task(queue, id, found, x)
      take_out(pending, id)
      put_in(active, x[CREATED], id)
      local name = room and name_of(lane.kind)
      if name and room[name] then room[name] = room[name] - 1 end
      took = took + 1
    elseif looked >= SCAN_BUDGET then
      if looked > passed then say_more() end
      break
    end
  end
  settle_heads()
  for _, id in ipairs(damaged) do alone(set_aside, id, queue) end
  settle_heads()
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
  if not config.rate or config.spread or call('HEXISTS', P .. 'ready', queue) == 0 then return end
  local short = 1 - tokens_of(queue, config)
  if short > 0 then
    refills[#refills + 1] = queue
    refills[#refills + 1] = math.ceil(short / config.rate * 1000)
  end
end

for _, id in ipairs(given) do taken[#taken + 1] = id end -- so that no run id is used twice
if A[SPREAD] and not A[7] then let_full_in() end
for _, queue in ipairs(with_something(A[6])) do
  local wanted = limit - (#taken - #given)
  if wanted <= 0 or #undecided > 0 then break end
  local config = config_of(queue)
  claim_within_limits(queue, config, wanted)
  note_refill(queue, config)
end
if #undecided > 0 then say_more() end
if #taken > #given then
  call('SET', token_key, table.concat(taken, '\n'), 'PX', WINDOW_MS)
  if A[8] then -- claimed with a grant: a repeat of the whole claim finds these too
    local first = call('GET', P .. 'claim:' .. A[8])
    local ids = table.concat(taken, '\n', #given + 1)
    call('SET', P .. 'claim:' .. A[8], first and first .. '\n' .. ids or ids, 'PX', WINDOW_MS)
  end
end
-- An empty list becomes nil: Redis before 7 sends each list within a reply by a write of its own, and
-- the client then reads the reply in as many pieces.
for place = 4, 6 do
  if #claimed[place] == 0 then claimed[place] = false end
end
finish()
return claimed
