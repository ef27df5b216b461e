-- Shared by the scripts, after `common.lua`: lanes of ready tasks, and the gates of keys before them.

-- The name under which a task stands in its lane: equals go by the number of their creation.
local function member_of(number, id) return number .. id end
local function id_of(member) return string.sub(member, 13) end

-- Lanes: the ready tasks of one queue and kind, by priority and order. `ready` has every queue that
-- has any: "=" and its kind if it has one lane, as most have, else how many. Of more than one, what is
-- first in each stands in `heads:` in their common order, by its number with the kind; of more than
-- FEW_LANES, their kinds stand in `kinds:`. So a claim looks at no queue that has nothing, and a lane
-- that it may not take from costs it a comparison on the server.

local function lane_of(queue, kind) return P .. 'ready:' .. queue .. '|' .. kind end
local function heads_of(queue) return P .. 'heads:' .. queue end
local function kinds_of(queue) return P .. 'kinds:' .. queue end
local function head_of(member, kind) return string.sub(member, 1, 12) .. kind end
local function kind_in(head) return string.sub(head, 13) end
local function name_of(kind) return string.match(kind, '^[^@?]*') end

-- Lanes that this script changes, by queue and kind, with what was first in each before. Said before
-- the change.
local changed = {}
local function change_lane(queue, kind)
  local of = changed[queue]
  if not of then
    of = {}
    changed[queue] = of
  end
  if of[kind] == nil then of[kind] = call('ZRANGE', lane_of(queue, kind), 0, 0)[1] or false end
end

local function first_of(queue, kind) return call('ZRANGE', lane_of(queue, kind), 0, 0, 'WITHSCORES') end
local function only_kind(noted) return noted and string.match(noted, '^=(.*)$') end

-- Note how many lanes a queue with heads has, after some came and some went, and of many their kinds.
local function count_lanes(queue, before, fresh, gone)
  local heads, kinds, ready = heads_of(queue), kinds_of(queue), P .. 'ready'
  local n = call('ZCARD', heads)
  if n > 1 then
    call('HSET', ready, queue, n)
  elseif n == 1 then
    call('HSET', ready, queue, '=' .. kind_in(call('ZRANGE', heads, 0, 0)[1]))
    call('DEL', heads)
  else
    call('HDEL', ready, queue)
  end
  if n <= FEW_LANES then
    if before > FEW_LANES then call('DEL', kinds) end
  elseif before <= FEW_LANES then
    local all = call('ZRANGE', heads, 0, -1)
    for i, head in ipairs(all) do all[i] = kind_in(head) end
    in_turn('SADD', kinds, all)
  else
    if #gone > 0 then in_turn('SREM', kinds, gone) end
    if #fresh > 0 then in_turn('SADD', kinds, fresh) end
  end
end

-- Of a queue that had one lane or none, and no heads: `of` has the kinds that may have changed.
local function put_first_heads(queue, of, only)
  local flat, kinds = {}, {}
  local function look(kind)
    local first = first_of(queue, kind)
    if first[1] then
      flat[#flat + 1], flat[#flat + 2] = first[2], head_of(first[1], kind)
      kinds[#kinds + 1] = kind
    end
  end
  for kind in pairs(of) do look(kind) end
  if only and of[only] == nil then look(only) end
  if #kinds > 1 then
    in_turn('ZADD', heads_of(queue), flat)
    count_lanes(queue, 0, kinds, {})
  elseif kinds[1] then
    if kinds[1] ~= only then call('HSET', P .. 'ready', queue, '=' .. kinds[1]) end
  elseif only then
    call('HDEL', P .. 'ready', queue)
  end
end

local function put_heads(queue, of)
  local noted = call('HGET', P .. 'ready', queue)
  local lanes_before = tonumber(noted or '')
  if not lanes_before then return put_first_heads(queue, of, only_kind(noted)) end
  local heads, leave, come, fresh, gone = heads_of(queue), {}, {}, {}, {}
  for kind, before in pairs(of) do
    local first = first_of(queue, kind)
    if before and first[1] ~= before then leave[#leave + 1] = head_of(before, kind) end
    if first[1] then -- also if it is the same as before: its score may be another
      come[#come + 1], come[#come + 2] = first[2], head_of(first[1], kind)
      if not before then fresh[#fresh + 1] = kind end
    else
      gone[#gone + 1] = kind
    end
  end
  if #leave > 0 then in_turn('ZREM', heads, leave) end
  if #come > 0 then in_turn('ZADD', heads, come) end
  if #fresh > 0 or #gone > 0 then count_lanes(queue, lanes_before, fresh, gone) end
end

-- Bring the heads to where the lanes are; when the script ends, or before it looks at them again.
local function settle_heads()
  flush()
  for queue, of in pairs(changed) do put_heads(queue, of) end
  changed = {}
end

local function offer(queue, kind, score, member)
  change_lane(queue, kind)
  hint('ready', queue)
  put_in(lane_of(queue, kind), score, member)
end

local function finish()
  settle_heads()
  if #log > 0 then
    in_turn('RPUSH', P .. 'log', log)
    if not hints.ready then hint('events', '') end -- whoever listens for events listens for ready tasks too
  end
  local channel = string.match(P, '^{(.*):%d+}:$') .. ':hints:'
  for kind, names in pairs(hints) do
    call('PUBLISH', channel .. kind, table.concat(names, '\n'))
  end
end

-- The gate of a concurrency key. A task that is ready or active is admitted; one that waits
-- outside is parked, in the order of its lane, and no claim looks at it.

local function parked_of(queue, key) return P .. 'parked:' .. queue .. '|' .. key end

local function count(hash, field, change)
  if call('HINCRBY', hash, field, change) == 0 then call('HDEL', hash, field) end
end

local function admit(queue, key, change) count(P .. 'admitted:' .. queue, key, change) end
local function run_of_key(queue, key, change) count(P .. 'running:' .. queue, key, change) end

local function park(queue, key, score, member)
  if call('ZADD', parked_of(queue, key), score, member) == 1 then
    count(P .. 'parked', queue, 1)
    call('ZADD', P .. 'gates:' .. queue, 0, key)
  end
end

local function unpark(queue, key, member)
  local parked = parked_of(queue, key)
  if call('ZREM', parked, member) == 0 then return false end
  count(P .. 'parked', queue, -1)
  if call('EXISTS', parked) == 0 then call('ZREM', P .. 'gates:' .. queue, key) end
  return true
end

-- Admit parked tasks of a key, the first in order first, while its limit has room. At most `most`
-- of them; how many. `mine` is one whose record is yet to be written, `x_of_mine` its entry.
local function promote(queue, key, most, mine, x_of_mine)
  local limit = config_of(queue).per_key
  local room = most
  if limit then
    local admitted = tonumber(call('HGET', P .. 'admitted:' .. queue, key) or 0)
    room = math.min(limit - admitted, most)
  end
  local done = 0
  while done < room do
    local first = call('ZRANGE', parked_of(queue, key), 0, room - done - 1, 'WITHSCORES')
    if #first == 0 then break end
    for i = 1, #first, 2 do
      local member = first[i]
      local x = member == mine and x_of_mine or entry_of(fields_of(id_of(member), 'x')[1])
      unpark(queue, key, member)
      if x then -- else its record is damaged or gone, and the next one goes
        admit(queue, key, 1)
        offer(queue, x[KIND], first[i + 1], member)
        done = done + 1
      end
    end
  end
  return done
end

local function place(x, number, id)
  local queue, key = x[QUEUE], x[KEY]
  local member = member_of(number, id)
  if key then
    if config_of(queue).per_key then
      -- all of the key compete by their order for what room there is
      park(queue, key, x[SCORE], member)
      promote(queue, key, 1000, member, x)
      return
    end
    admit(queue, key, 1)
  end
  offer(queue, x[KIND], x[SCORE], member)
end

-- Take a pending task out of its lane, or out of the tasks parked before it. Its slot of the key is
-- free then; the caller admits others once the task is where it goes.
local function unplace(x, number, id)
  local queue, key = x[QUEUE], x[KEY]
  local member = member_of(number, id)
  if key and unpark(queue, key, member) then return end
  flush() -- it may have been put there by this script
  change_lane(queue, x[KIND])
  take_out(lane_of(queue, x[KIND]), member)
  if key then admit(queue, key, -1) end
end
