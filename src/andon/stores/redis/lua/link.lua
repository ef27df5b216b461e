-- Record the edges from parents here to a child, or tell the end of a parent: per edge the state it
-- ended in, "" if it lives, "-" if it does not exist. An edge already counted off is only kept
-- where the child loads the result.
local refused = refuse_strangers()
if refused then return refused end

local LOADS, ANY_END, SETTLED = 1, 2, 4
local function has(flags, bit) return math.floor(flags / bit) % 2 == 1 end

local function add(parent, child, loads, any_end, ended)
  local key = P .. 'flags:' .. parent
  local flags = tonumber(call('HGET', key, child) or -1)
  if flags >= 0 then
    if loads and not has(flags, LOADS) then -- it was let go, and waits anew
      flags = flags + LOADS
      call('HSET', key, child, flags)
      call('SADD', P .. 'loading:' .. parent, child)
    end
    if has(flags, SETTLED) and not ended then
      call('HSET', key, child, flags - SETTLED)
      call('SADD', P .. 'untold:' .. parent, child)
    end
    return
  end
  call('HSET', key, child, (loads and LOADS or 0) + (any_end and ANY_END or 0))
  call('ZADD', P .. 'edges:' .. parent, 0, child)
  call('SADD', P .. 'untold:' .. parent, child)
  if loads then call('SADD', P .. 'loading:' .. parent, child) end
  if ended then call('ZADD', P .. 'fanout', call('HINCRBY', P .. 'meta', 'turn', 1), parent) end
end

local function settle(parent, child)
  local key = P .. 'flags:' .. parent
  local flags = tonumber(call('HGET', key, child) or -1)
  if flags < 0 or has(flags, SETTLED) then return end
  call('HSET', key, child, flags + SETTLED)
  call('SREM', P .. 'untold:' .. parent, child)
  if call('EXISTS', P .. 'untold:' .. parent) == 0 then call('ZREM', P .. 'fanout', parent) end
end

local function link(parent, child, loads, any_end, counted)
  local state = fields_of(parent, 'st')[1]
  if counted then
    if loads and state then
      add(parent, child, loads, any_end, true)
      settle(parent, child)
    end
    return 'completed'
  end
  if not state then
    local stub = stub_of(parent)
    return stub and stub[3] or '-'
  end
  local ended = not LIVE[state]
  add(parent, child, loads, any_end, ended)
  return ended and state or ''
end

local reply = {now}
for i, item in ipairs(A) do
  reply[i + 1] = alone(link, item[1], item[2], item[3], item[4], item[5])
end
finish()
return reply
