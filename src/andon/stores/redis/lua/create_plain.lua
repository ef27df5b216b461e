-- What `create` does first, before the shared parts, which cost a lone call more than all else: new
-- records of pending tasks without keys, group or timer, if their queues are known and bounded by
-- no size and none of the ids is taken. Whatever else is left to `create`, with nothing written.
-- A has the groups, in turn: tasks that share an index entry and what their version begins with.
-- ARGV[3] and ARGV[4] are the status of all and what their events have before the id, or else empty;
-- then come the parts of each task, the last two only if the status is not that of all. No id comes
-- twice. About 8 microseconds a record.
local ENTRY, HEAD, QUEUE, NAME, CREATED, SCORE, SIZE = 1, 2, 3, 4, 5, 6, 7
local ID, DEFINITION, DIGEST, STATUS, EVENT = 1, 2, 3, 4, 5
local FIRST = 4
local FIRST_LIMIT, RUN_NUMBER, FENCE = 9, 15, 16 -- of an entry
local NEAR_MS, WINDOW_MS = 5000, 600000
if #ARGV > FIRST then
  local common, begun, width = ARGV[3], ARGV[4], 3
  if common == '' then common, width = nil, 5 end
  local meta, task, stub = P .. 'meta', P .. 'task:', P .. 'stub:'
  local wanted, last = {'min_writer', 'stubs'}, nil
  for _, group in ipairs(A) do
    if group[QUEUE] ~= last then
      last = group[QUEUE]
      wanted[#wanted + 1] = 'queue:' .. last
    end
  end
  local queues_end = #wanted
  if #ARGV == FIRST + width then wanted[queues_end + 1] = 'stands:' .. last end
  local found = call('HMGET', meta, unpack(wanted))
  local plain, left = found[1] == '1', found[queues_end + 1]
  for i = 3, queues_end do plain = plain and (found[i] == 'free' or found[i] == 'open') end
  local keys, n = {}, 0
  for at = FIRST + ID, #ARGV, width do
    n = n + 1
    keys[n] = task .. ARGV[at]
  end
  plain = plain and call('EXISTS', unpack(keys)) == 0
  if plain and (tonumber(found[2]) or now + 1) > now then -- stubs last until then
    local stubs = {}
    for i = 1, n do stubs[i] = stub .. ARGV[FIRST + ID + (i - 1) * width] end
    plain = call('EXISTS', unpack(stubs)) == 0
  end
  if plain then
    local number = call('HINCRBY', meta, 'number', n) - n
    if left and common and found[3] == 'free' then
      -- A claim stands: if it still does, and would get this task and no other, it has it. What it is
      -- given is what `claim_plain` would make of the task.
      local stands = cmsgpack.unpack(left)
      local token, lanes = stands[1], {}
      for i, queue in ipairs(stands[7]) do lanes[i] = P .. 'lanes:' .. queue end
      call('HDEL', meta, unpack(stands[8]))
      local channel = string.match(P, '^{(.*):%d+}:$') .. ':hints:'
      local listen = redis.pcall('PUBSUB', 'NUMSUB', channel .. stands[4])
      local id = ARGV[FIRST + ID]
      if stands[3] >= now and (listen[2] or 0) > 0 and call('EXISTS', unpack(lanes)) == 0
        and call('SET', P .. 'claim:' .. token, id, 'PX', WINDOW_MS, 'NX') then
        local group, definition, status = A[1], ARGV[FIRST + DEFINITION], common
        local queue, x = group[QUEUE], cmsgpack.unpack(group[ENTRY])
        local revision, rest = string.match(group[HEAD], '^(%d+)(.*)$')
        local run, worker, lease_until = token .. '-1', stands[5], now + stands[6]
        local fence, timer = math.max(x[FENCE] + 1, now), lease_until
        if x[FIRST_LIMIT] then timer = math.min(timer, now + x[FIRST_LIMIT]) end
        revision = revision + 1
        call('HSET', keys[1], 'd', definition, 's', status, 'x', group[ENTRY], 'st', 'active',
          'v', string.format('%d', revision) .. rest .. string.format('%012d ', number + 1)
            .. ARGV[FIRST + DIGEST],
          'c', cmsgpack.pack({revision, run, fence, worker, token, now, lease_until, now, 0, ''}))
        call('ZADD', P .. 'state:' .. queue .. '|active', group[CREATED], id)
        call('ZADD', P .. 'timers', string.format('%d', timer), id)
        call('RPUSH', P .. 'log', begun .. id .. '\192',
          'C' .. cmsgpack.pack({revision, now, x[RUN_NUMBER], worker, run, id}))
        call('PUBLISH', channel .. stands[4], table.concat({token, stands[2],
          string.format('%d', now), string.format('%d', fence), #definition,
          definition .. status}, '\n'))
        call('PUBLISH', channel .. 'events', '')
        call('PUBLISH', channel .. 'task', id)
        if timer <= now + NEAR_MS then call('PUBLISH', channel .. 'timer', '') end
        return {now, 'h'}
      end
    end
    local lists, ready, log, at, made = {}, {}, {}, FIRST, 0
    for _, group in ipairs(A) do
      local entry, head, queue, name = group[ENTRY], group[HEAD], group[QUEUE], group[NAME]
      local score, created = group[SCORE], group[CREATED]
      local pending, waiting = P .. 'state:' .. queue .. '|pending', P .. 'ready:' .. queue .. '|' .. name
      local list, lane = lists[pending], lists[waiting]
      if not list then
        list = {}
        lists[pending] = list
        ready[#ready + 1] = queue
      end
      if not lane then
        lane = {}
        lists[waiting] = lane
        call('SADD', P .. 'lanes:' .. queue, name)
      end
      local i, j = #list, #lane
      for _ = 1, group[SIZE] do
        made = made + 1
        local id, serial = ARGV[at + ID], string.format('%012d', number + made)
        call('HSET', keys[made], 'd', ARGV[at + DEFINITION], 's', common or ARGV[at + STATUS],
          'x', entry, 'st', 'pending', 'v', head .. serial .. ' ' .. ARGV[at + DIGEST])
        list[i + 1], list[i + 2] = created, id
        lane[j + 1], lane[j + 2] = score, serial .. id
        log[made] = common and begun .. id .. '\192' or ARGV[at + EVENT] -- \192: no result
        i, j, at = i + 2, j + 2, at + width
      end
    end
    for key, flat in pairs(lists) do call('ZADD', key, unpack(flat)) end
    call('RPUSH', P .. 'log', unpack(log))
    call('PUBLISH', string.match(P, '^{(.*):%d+}:$') .. ':hints:ready', table.concat(ready, '\n'))
    return {now}
  end
  local items, at = {}, FIRST -- as `create` takes them
  for _, group in ipairs(A) do
    for _ = 1, group[SIZE] do
      local id = ARGV[at + ID]
      items[#items + 1] = {id, ARGV[at + DEFINITION], common or ARGV[at + STATUS], group[ENTRY],
        common and begun .. id .. '\192' or ARGV[at + EVENT], true, group[HEAD], ARGV[at + DIGEST]}
      at = at + width
    end
  end
  A = items
end
