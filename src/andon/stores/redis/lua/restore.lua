-- Store records as they were in another store, each in one step with all that was known beside it:
-- 1, or 0 where the id is taken. Neither a full queue nor a held key refuses one.
local refused = refuse_strangers()
if refused then return refused end

local MOST_LOOKED_AT = 200
local {{fields.restore ID, DEFINITION, STATUS, ENTRY, HEAD, MOVES, APART, CELL, RESULT, ASKED}}
local {{fields.restore EDGES, SATISFIED, KEEPS_KEY, DIGEST, TALLIES}}
local reply = {now}
local number = call('HINCRBY', P .. 'meta', 'number', #A) - #A

-- The ready task of a key that stands last in its queue's order, of those that came last.
local function last_ready(queue, key)
  local worst
  for _, id in ipairs(call('ZREVRANGE', P .. 'key:' .. key, 0, MOST_LOOKED_AT - 1)) do
    local found = fields_of(id, 'st', 'x', 'v')
    local x = found[1] == 'pending' and entry_of(found[2])
    if x and x[QUEUE] == queue then
      local _, _, its_number = parts_of(found[3])
      local member = member_of(its_number, id)
      local score = call('ZSCORE', lane_of(queue, x[KIND]), member)
      if score and (not worst or tonumber(score) >= tonumber(worst[2])) then
        worst = {x[KIND], score, member}
      end
    end
  end
  return worst
end

-- A run that arrives may be one too many of its key: what is ready of it is parked.
local function make_way(queue, key)
  local limit = config_of(queue).per_key
  flush()
  while limit and tonumber(call('HGET', P .. 'admitted:' .. queue, key) or 0) > limit do
    local last = last_ready(queue, key)
    if not last then return end
    change_lane(queue, last[1])
    call('ZREM', lane_of(queue, last[1]), last[3])
    admit(queue, key, -1)
    park(queue, key, last[2], last[3])
  end
end

local function run_on(x, id)
  local queue, key = x[QUEUE], x[KEY]
  if key then
    run_of_key(queue, key, 1)
    admit(queue, key, 1)
    make_way(queue, key)
  end
end

local function link(id, edges, ended)
  local untold = false
  for _, edge in ipairs(edges) do
    local child, flags = edge[1], edge[2]
    call('HSET', P .. 'flags:' .. id, child, flags)
    call('ZADD', P .. 'edges:' .. id, 0, child)
    if flags % 2 == 1 then call('SADD', P .. 'loading:' .. id, child) end
    if flags < 4 then
      call('SADD', P .. 'untold:' .. id, child)
      untold = true
    end
  end
  if ended and untold then
    call('ZADD', P .. 'fanout', call('HINCRBY', P .. 'meta', 'turn', 1), id)
  end
end

for i, item in ipairs(A) do
  local id = item[ID]
  if taken(id) then
    reply[i + 1] = 0
  else
    local x = entry_of(item[ENTRY])
    local state = x[STATE]
    number = number + 1
    local serial = string.format('%012d', number)
    local task = P .. 'task:' .. id
    put_new(task, item[DEFINITION], item[STATUS], item[ENTRY], state,
      item[HEAD] .. serial .. (item[APART] and 'h ' or ' ') .. item[DIGEST], item[CELL])
    if item[RESULT] then call('HSET', task, 'r', item[RESULT]) end
    if item[ASKED] ~= '' then call('HSET', task, 'q', item[ASKED]) end
    introduce(x, serial, id)
    if state == 'active' then run_on(x, id) end
    if x[UNIQUE] and item[KEEPS_KEY] and not lapsed(x) and not holder_of(x[UNIQUE], id) then
      reserve(x[UNIQUE], x[UNIQUE_UNTIL], id)
    end
    for _, parent in ipairs(item[SATISFIED]) do call('SADD', P .. 'satisfied:' .. id, parent) end
    link(id, item[EDGES], not LIVE[state] and state ~= 'unknown')
    for _, event in ipairs(item[MOVES]) do
      log[#log + 1] = event
      if item[APART] then call('RPUSH', P .. 'history:' .. id, event) end
    end
    for _, counted in ipairs(item[TALLIES]) do tally(x[QUEUE], unpack(counted)) end
    if item[APART] then
      if #item[MOVES] == 0 then call('RPUSH', P .. 'history:' .. id, '') end -- none of its moves is kept
      call('LTRIM', P .. 'history:' .. id, -{{history_kept}}, -1)
    end
    hint('task', id)
    reply[i + 1] = 1
  end
end
put_tallies()
finish()
return reply
