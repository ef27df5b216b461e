-- The first fast path of `create`: one new record of a task that is plain in the sense of
-- `create_plain`, from the same ARGV. It is handed over to a waiting claim, or put into its lane.
-- Anything else is left to `create_plain`, with nothing written. Tasks that are awaited one after
-- another come here, without the cost of what only batches need.
local {{fields.new_group ENTRY, HEAD, QUEUE, KIND, CREATED, SCORE, DAY, TALLY, LISTS}}
local STATUS, BEGUN, ID, DEFINITION, DIGEST = 3, 4, 5, 6, 7
local ALONE = 7
local NEAR_MS, WINDOW_MS, MOST_KINDS, FEW_LANES =
  {{near_timer_ms}}, {{submit_window_ms}}, {{most_kinds}}, {{few_lanes}}
if #ARGV == ALONE then
  local group, id = A[1], ARGV[ID]
  local queue, meta, task = group[QUEUE], P .. 'meta', P .. 'task:' .. id
  local found = call('HMGET', meta, 'min_writer', 'stubs', 'queue:' .. queue, 'stands:' .. queue)
  local limits, left = found[3], found[4]
  if found[1] == '{{writer_version}}' and (limits == 'free' or limits == 'open') and call('EXISTS', task) == 0
    and ((tonumber(found[2]) or now + 1) <= now -- stubs last until then
      or call('EXISTS', P .. 'stub:' .. id) == 0) then
    local kind, definition, status = group[KIND], ARGV[DEFINITION], ARGV[STATUS]
    local head, digest = group[HEAD], ARGV[DIGEST]
    local day = group[DAY]
    {{counted}}
    {{count_day(day, group[TALLY] .. '|' .. queue, '1')}}
    {{serial}}
    {{set_serial(day, counted)}}
    local channel = string.match(P, '^{(.*):%d+}:$') .. ':hints:'
    local submitted = ARGV[BEGUN] .. id .. '\192' -- \192: no result
    local function put(key, score) call('ZADD', key, score, id) end
    if left and limits == 'free' then
      -- A claim stands: if it still does, and would get this task and no other, it has it. A claim
      -- whose code may not have the task, or is not known to, is left standing.
      local stands = cmsgpack.unpack(left)
      local token, queues, code, listen = stands[1], stands[7], stands[9], {}
      local has_code = code == '' or call('SISMEMBER', P .. 'can:' .. code, kind) == 1
      if has_code then
        call('HDEL', meta, unpack(stands[8]))
        listen = redis.pcall('PUBSUB', 'NUMSUB', channel .. stands[4])
      end
      local it_stands = has_code and stands[3] >= now and (listen[2] or 0) > 0
      local waits = it_stands and call('HMGET', P .. 'ready', unpack(queues)) or {}
      for i, noted in ipairs(waits) do
        if noted and it_stands then -- it may be what that claim has no code for
          local kinds = {string.match(noted, '^=(.*)$')}
          if not kinds[1] and code ~= '' then
            kinds = call('ZRANGE', P .. 'heads:' .. queues[i], 0, MOST_KINDS)
            for j, head in ipairs(kinds) do kinds[j] = string.sub(head, 13) end
          end
          it_stands = code ~= '' and #kinds <= MOST_KINDS
          local barred = it_stands and call('SMISMEMBER', P .. 'cannot:' .. code, unpack(kinds)) or {}
          for j = 1, #kinds do it_stands = it_stands and barred[j] == 1 end
        end
      end
      if it_stands and call('SET', P .. 'claim:' .. token, id, 'PX', WINDOW_MS, 'NX') then
        local before, rest = string.match(head, '^(%d+)(.*)$')
        {{run_version}} -- and the other variables of `stamp`
        {{begin_claim(stands[5], token, now + stands[6])}}
        local x = cmsgpack.unpack(group[ENTRY])
        {{stamp(id, x, before, rest .. serial .. ' ' .. digest, 1)}}
        {{put_new(task, definition, status, group[ENTRY], 'active', run_version, run_cell)}}
        {{each_place(put, queue, 'active', group[CREATED], nil, false, group[LISTS])}}
        put(P .. 'timers', run_timer)
        call('RPUSH', P .. 'log', submitted, run_event)
        call('PUBLISH', channel .. stands[4], table.concat({token, stands[2],
          claim_now, run_fence, #definition, definition .. status}, '\n'))
        call('PUBLISH', channel .. 'events', '')
        call('PUBLISH', channel .. 'run', id)
        if tonumber(run_timer) <= now + NEAR_MS then call('PUBLISH', channel .. 'timer', '') end
        return {now, 'h'}
      end
    end
    {{put_new(task, definition, status, group[ENTRY], 'pending', head .. serial .. ' ' .. digest)}}
    {{each_place(put, queue, 'pending', group[CREATED], nil, false, group[LISTS])}}
    local lane, member = P .. 'ready:' .. queue .. '|' .. kind, serial .. id
    call('ZADD', lane, group[SCORE], member)
    -- What is kept beside lanes, as `lanes.lua` says.
    local noted = call('HGET', P .. 'ready', queue)
    if not noted then
      call('HSET', P .. 'ready', queue, '=' .. kind)
    elseif noted ~= '=' .. kind then
      local heads, first = P .. 'heads:' .. queue, call('ZRANGE', lane, 0, 1)
      local other = string.match(noted, '^=(.*)$')
      if other then
        local its = call('ZRANGE', P .. 'ready:' .. queue .. '|' .. other, 0, 0, 'WITHSCORES')
        call('ZADD', heads, its[2], string.sub(its[1], 1, 12) .. other, group[SCORE], serial .. kind)
        call('HSET', P .. 'ready', queue, 2)
      elseif first[1] == member then
        call('ZADD', heads, group[SCORE], serial .. kind)
        if first[2] then
          call('ZREM', heads, string.sub(first[2], 1, 12) .. kind)
        else
          local lanes_there = call('HINCRBY', P .. 'ready', queue, 1)
          if lanes_there > FEW_LANES then
            local kinds = {kind}
            if lanes_there == FEW_LANES + 1 then
              kinds = call('ZRANGE', heads, 0, -1)
              for i, head in ipairs(kinds) do kinds[i] = string.sub(head, 13) end
            end
            call('SADD', P .. 'kinds:' .. queue, unpack(kinds))
          end
        end
      end
    end
    call('RPUSH', P .. 'log', submitted)
    call('PUBLISH', channel .. 'ready', queue)
    return {now}
  end
end
