-- Shared by the scripts, after `lanes.lua`: unique keys, edges, stubs, and moves between states.

-- Unique keys of this partition. A reservation is "until since id", until being 0 for ever.

local function reservation(unique)
  local found = call('GET', P .. 'unique:' .. unique)
  if not found then return nil end
  local till, since, id = string.match(found, '^(%d+) (%d+) (%S+)')
  return id, tonumber(till), tonumber(since), found
end

local function holder_of(unique, id)
  local holder, till = reservation(unique)
  if not holder or holder == id or (till > 0 and till <= now) then return nil end
  return holder
end

local function lapsed(x) return x[UNIQUE_UNTIL] and x[UNIQUE_UNTIL] <= now end

-- `before`: the task that has reserved it, and does so again if `id` is never written.
local function reserve(unique, till, id, before)
  local body = int(till or 0) .. ' ' .. int(now) .. ' ' .. id
  call('SET', P .. 'unique:' .. unique, before and body .. ' ' .. before or body)
end

local function let_go_of(unique, id)
  if reservation(unique) == id then call('DEL', P .. 'unique:' .. unique) end
end

-- Edges. `edges:` has the children of a parent by name, `flags:` what is known of each,
-- `untold:` those not told of its end, `loading:` those that load its result.

local function held(id)
  return call('EXISTS', P .. 'untold:' .. id, P .. 'loading:' .. id) > 0
end

local function any_edges(id) return call('EXISTS', P .. 'edges:' .. id) == 1 end

-- Edges let go: a fan-out may be finished, a deletion put off may be due again.
local function free(id)
  if call('EXISTS', P .. 'untold:' .. id) == 0 then call('ZREM', P .. 'fanout', id) end
  local found = fields_of(id, 'st', 'x')
  if not found[1] or LIVE[found[1]] or held(id) then return end
  local x = entry_of(found[2])
  if x and x[TIMER] then arm(id, x[TIMER]) end
end

-- What is left of a task that was deleted within the window: until, digest, state, packed run and
-- report, write ids; of one that was discarded at its end, then the position of that end in the log.
local function stub_of(id)
  local found = call('GET', P .. 'stub:' .. id)
  if not found then return nil end
  local whole, stub = pcall(cmsgpack.unpack, found)
  if not whole or stub[1] <= now then return nil end
  return stub
end

-- Moves between states.

local function leave(x, st, number, id)
  local queue, key = x[QUEUE], x[KEY]
  each_place(function(set) take_out(set, id) end, queue, st, x[CREATED], x[TIMER], x[DEAD_LETTER], x[LISTS])
  if st == 'pending' then
    if x[SCORE] then unplace(x, number, id) end
  elseif st == 'active' then
    if key then
      run_of_key(queue, key, -1)
      admit(queue, key, -1)
    end
    local config = config_of(queue)
    if config.concurrent or config.spread then hint('ready', queue) end
  elseif st == 'blocked' then
    call('DEL', P .. 'satisfied:' .. id, P .. 'failing:' .. id)
  end
end

local function enter(x, number, id)
  local state = x[STATE]
  each_place(function(set, score) put_in(set, score, id) end, x[QUEUE], state, x[CREATED], x[TIMER],
    x[DEAD_LETTER], x[LISTS])
  if state == 'pending' and x[SCORE] then place(x, number, id) end
end

local known = {}

-- A record that was not there before takes its places.
local function introduce(x, number, id)
  local queue = x[QUEUE]
  if not known[queue] then
    known[queue] = true
    if call('SADD', P .. 'queues', queue) == 1 then
      call('HSET', P .. 'meta', 'queue:' .. queue, bounds_of(config_of(queue)))
      hint('config', '')
    end
  end
  enter(x, number, id)
  if x[TIMER] then arm(id, x[TIMER]) end
  if x[KEY] then put_in(P .. 'key:' .. x[KEY], x[CREATED], id) end
  if x[GROUP] then put_in(P .. 'group:' .. x[GROUP], x[CREATED], id) end
end

-- The outcome where an id is taken: digest and state of what is there, or was a moment ago.
local function taken(id)
  local found = call('HMGET', P .. 'task:' .. id, 'st', 'v')
  if found[1] then
    local _, _, _, _, digest = parts_of(found[2] or '')
    return {'e', digest or '', found[1]}
  end
  local stub = stub_of(id)
  if stub then return {'e', stub[2], stub[3]} end
end

local function set_timer(id, at)
  if at then arm(id, at) else take_out(TIMERS, id) end
end

-- Remove a record with every key of its own; a stub stays for the window, and `meta` tells until when
-- there are any.
local are_stubs_told
local function remove(id, x, state, digest, last_run, writes)
  if x[KEY] then take_out(P .. 'key:' .. x[KEY], id) end
  if x[GROUP] then take_out(P .. 'group:' .. x[GROUP], id) end
  take_out(TIMERS, id)
  take_out(P .. 'fanout', id)
  call('DEL', P .. 'task:' .. id, P .. 'history:' .. id, P .. 'edges:' .. id, P .. 'flags:' .. id,
    P .. 'untold:' .. id, P .. 'loading:' .. id, P .. 'satisfied:' .. id,
    P .. 'failing:' .. id)
  if not are_stubs_told then
    are_stubs_told = true
    call('HSET', P .. 'meta', 'stubs', int(now + WINDOW_MS))
  end
  call('SET', P .. 'stub:' .. id, cmsgpack.pack({now + WINDOW_MS, digest, state, last_run, unpack(writes)}),
    'PX', WINDOW_MS)
end

-- The parts of a record that a reader needs, in the order of `records.task_of`. The cell is empty
-- once its run has ended, and not there before the first.
local function parts(id)
  return fields_of(id, 'd', 's', 'c', 'r', 'st', 'v')
end

-- A record as part of a reply: its id and its parts.
local function hand_out(reply, id, found)
  local n = #reply
  reply[n + 1] = id
  for i = 1, 6 do reply[n + 1 + i] = found[i] end
end

-- The moves of a task whose status no longer tells them, as far as the newest of the log has them.
local function salvage(id)
  local found = {}
  for page = 1, 20 do
    local events = call('LRANGE', P .. 'log', -1000 * page, -1000 * (page - 1) - 1)
    for i = #events, 1, -1 do
      if string.find(events[i], id, 1, true) then table.insert(found, 1, events[i]) end
    end
    if #events < 1000 or #found >= {{events_in_status}} then break end
  end
  for _, event in ipairs(found) do keep_apart(id, event) end
end

-- What is known of a record whose index entry is damaged: in which queue it was found.
local function entry_in(queue, st)
  return {[STATE] = st, [QUEUE] = queue, [KIND] = '', [CREATED] = int(now), [DEAD_LETTER] = false}
end

-- Take a record that does not decode out of every index, in one step. `queue` is where it was met; of
-- one whose index entry is damaged nothing else is known.
local function set_aside(id, queue)
  local found = fields_of(id, 'v', 'st', 'x')
  local st = found[2]
  if not st or st == 'unknown' then return end
  local revision, created, number, apart, digest = parts_of(found[1] or '')
  if not revision then
    revision, created, number, apart, digest = 0, int(now) .. ' ', '000000000000', '', ''
  end
  local x = unpacked(found[3]) or entry_in(queue or '', st)
  leave(x, st, number, id)
  if x[KEY] then promote(x[QUEUE], x[KEY], 1000) end
  if x[UNIQUE] then let_go_of(x[UNIQUE], id) end
  local last = revision + 1
  x[STATE], x[SCORE], x[TIMER], x[DEAD_LETTER], x[UNIQUE] = 'unknown', nil, nil, false, nil
  x[LISTS] = nil
  local packed = {}
  for i = 1, {{fields_of_entry}} do packed[i] = x[i] == nil and cjson.null or x[i] end
  put_in(list_of(x[QUEUE], 'unknown'), x[CREATED], id)
  call('HDEL', P .. 'task:' .. id, 'c', 'q')
  call('HSET', P .. 'task:' .. id, 'st', 'unknown', 'v', int(last) .. ' ' .. created .. number .. 'h ' .. digest,
    'x', cmsgpack.pack(packed))
  take_out(TIMERS, id)
  log[#log + 1] = 'U' .. cmsgpack.pack({last, now, st, id})
  if apart == '' then salvage(id) end
  keep_apart(id, log[#log])
  hint('task', id)
end
