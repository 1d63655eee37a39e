/** Clients of Anthropic's API in front of Anthropic: passthrough both ways. */
import { beforeEach, describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { encodeState } from '../../src/upstreams/dialects/reasoning-state.ts'
import { forAllTests } from '../support/lifetime.ts'
import { createPicker } from '../support/random.ts'
import { hasRecordings, readRecording } from '../support/recordings.ts'
import type { Script } from '../support/upstream.ts'
import { idOf, START, startNative, toAnswer, toFrames, toStream } from './native-messages.ts'

const gateway = forAllTests(() => startNative(', betas: [always-2026-01-01], api_version: "2023-06-01"'))
beforeEach(() => {
  gateway.app.pass(24 * 60 * 60_000)
  gateway.upstream.script(toStream(toAnswer('Hello')))
})

const HELLO = '{"model":"anthropic/claude","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"Hi"}]}'
const lastSent = () => gateway.upstream.requests.at(-1)
const lastRow = async () => {
  await gateway.app.flushed()
  return gateway.app.rows().at(-1)
}
const ours = (text: string, id: string, model = 'anthropic/claude') =>
  text.replace('"msg_up"', `"msg_${id}"`).replace('"claude-up"', `"${model}"`)

test("a stream returns frame by frame, with the catalog's model name and our own ID", async () => {
  const answer = toAnswer('He', 'llo \u2028 \\ud83d "claude-up"', '')
  gateway.upstream.script(toStream(answer))
  const response = await gateway.post(HELLO)
  expect(await response.text()).toBe(ours(toFrames(answer).join(''), idOf(response)))
  expect(response.headers.get('x-tollgate-passthrough')).toBe('true')
  expect(response.headers.get('request-id')).toBe(`req_${idOf(response)}`)
  expect(await lastRow()).toMatchObject({
    ...{ endpoint: 'messages', lane: 'native', status: 'ok', stream: 1, prompt_tokens: 10, completion_tokens: 7 },
    ...{ estimated: 0, cost_nano_usd: 10 * 3_000 + 7 * 15_000 },
  })
})

test('a whole response returns unchanged', async () => {
  const text =
    '{ "model":"claude-up","id":"msg_up", "type":"message","role":"assistant","content":[{"type":"text","text":"H\\u0069","n":1e400},{"type":"server_tool_use","id":"x","id":"y","input":{}}],\n"container":null,"stop_reason":"end_turn","usage":{"input_tokens":10,"output_tokens":7,"new":12345678901234567890} }'
  gateway.upstream.script({ kind: 'whole', headers: { 'content-type': 'application/json' }, body: text })
  const response = await gateway.post(HELLO.replace(',"stream":true', ''))
  expect(await response.text()).toBe(ours(text, idOf(response)))
  expect(await lastRow()).toMatchObject({ lane: 'native', stream: 0, status: 'ok', cost_nano_usd: 135_000 })
})

describe('a request passes byte for byte', () => {
  test('except for its model, its routing, and fields that choose another one', async () => {
    const rest =
      '"max_tokens":9,"messages":[{"role":"user","content":[{"type":"text","text":"a","x":{"n":-0.0,"m":1e400}},{"type":"text","text":"\\u00e9\u2028"}]}],\n"context_management":{"edits":[]},"unheard_of":12345678901234567890 }'
    await (await gateway.post(`{ "model" :"anthropic/claude", "provider":{"order":["x"]},${rest}`)).text()
    expect(lastSent()?.body).toBe(`{ "model" :"claude-up",${rest}`)
  })

  test("with its client's versions and betas, and no other header", async () => {
    const headers = { 'anthropic-version': '2026-10-21', 'anthropic-beta': 'a-1, b-2', 'x-app': 'cli', cookie: 'c=1' }
    await (await gateway.post(HELLO, headers)).text()
    const sent: Record<string, string> = lastSent()?.headers ?? {}
    expect(sent['anthropic-version']).toBe('2026-10-21')
    expect(sent['anthropic-beta']).toBe('a-1,b-2,always-2026-01-01')
    expect(Object.keys(sent)).not.toContain('x-app')
    expect(Object.keys(sent)).not.toContain('cookie')
    expect(JSON.stringify(sent)).not.toContain('sk-tg-')
  })

  test("without headers that aren't a list of versions", async () => {
    const headers = { 'anthropic-version': 'x'.repeat(2_000), 'anthropic-beta': 'a"b' }
    await (await gateway.post(HELLO, headers)).text()
    expect(lastSent()?.headers).toMatchObject({
      'anthropic-version': '2023-06-01',
      'anthropic-beta': 'always-2026-01-01',
    })
  })

  test('with any content, and so does its response', async () => {
    const below = createPicker(23)
    for (let round = 0; round < 60; round++) {
      const extra = anyMembers(below, 4)
      const block = `{"type":"b${below(9)}"${extra}}`
      const request = `{"model":"anthropic/open","max_tokens":9,"stream":true${extra},"messages":[{"role":"user","content":[${block},{"type":"text","text":"Hi"}]}]}`
      const start = START.replace('"content":[]', `"content":[]${extra}`)
      const answer = [start, `{"type":"unknown"${extra}}`, ...toAnswer('x').slice(1)]
      gateway.upstream.script(toStream(answer))
      const response = await gateway.post(request)
      const text = await response.text()
      const isAsItCame = response.headers.get('x-tollgate-passthrough') === 'true'
      expect(isAsItCame).toBe(!/"a".*"a"/s.test(extra))
      if (!isAsItCame) continue
      expect(lastSent()?.body).toBe(request.replace('anthropic/open', 'claude-up'))
      expect(text).toBe(ours(toFrames(answer).join(''), idOf(response), 'anthropic/open'))
    }
  })
})

const VALUES = [
  '1e400',
  '-0.0',
  '12345678901234567890',
  'null',
  '"\\ud83d\\u0022"',
  '"\u2028ключ😀"',
  '[]',
  '{"a":[{"b":{}}]}',
]
const NAMES = ['a', 'b', 'x y', 'ключ', '', '0']
function anyMembers(below: (most: number) => number, most: number): string {
  const space = () => ['', ' ', '\t'][below(3)]
  const count = below(most)
  return Array.from({ length: count }, (_, at) => {
    const name = below(8) === 0 ? 'a' : `${NAMES[below(NAMES.length)]}${at}`
    return `,${space()}${JSON.stringify(name)}${space()}:${space()}${VALUES[below(VALUES.length)]?.replace('"a"', `"c${at}"`)}`
  }).join('')
}

describe('if it is rejected upstream', () => {
  test('before the first token, the next upstream responds, translated', async () => {
    const busy = '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
    gateway.upstream.script(toStream([START, busy]))
    const response = await gateway.post(HELLO.replace('claude', 'backed'))
    const text = await response.text()
    expect(response.headers.get('x-tollgate-passthrough')).toBe('false')
    expect(text).toContain('"text":"tok0')
    expect(text).not.toContain('msg_up')
    expect(await lastRow()).toMatchObject({ lane: 'translated', upstream: 'openai', attempts: 2, status: 'ok' })
  })

  test("because of the request, the upstream's error is reported", async () => {
    const message = 'messages.0: new_block is not known'
    gateway.upstream.script({
      kind: 'whole',
      status: 400,
      body: { type: 'error', error: { type: 'invalid_request_error', message } },
    })
    const response = await gateway.post(HELLO)
    expect(response.status).toBe(400)
    expect(await response.json()).toMatchObject({ type: 'error', error: { type: 'invalid_request_error', message } })
  })

  test("within the response, it ends in an error and doesn't look complete", async () => {
    gateway.upstream.script({ kind: 'stream', steps: toFrames(toAnswer('Hello').slice(0, 4)), end: 'cut' })
    const response = await gateway.post(HELLO)
    const text = await response.text()
    expect(text).toStartWith(ours(toFrames(toAnswer('Hello').slice(0, 4)).join(''), idOf(response)))
    expect(text).toMatch(/\n\nevent: error\ndata: \{"type":"error","error":\{"type":"api_error"[^\n]+\n\n$/)
    expect(await lastRow()).toMatchObject({ lane: 'native', status: 'cut' })
  })
})

test('passthrough and translation cost the same', async () => {
  const usage =
    '"usage":{"input_tokens":10,"cache_read_input_tokens":300,"cache_creation_input_tokens":40,"cache_creation":{"ephemeral_5m_input_tokens":10,"ephemeral_1h_input_tokens":30},"output_tokens":1}'
  const answer = toAnswer('Hello').map((data) => data.replace(/"usage":\{"input_tokens".*?\}/, usage))
  gateway.upstream.script(toStream(answer))
  const rows = []
  for (const model of ['claude', 'anew']) {
    await (await gateway.post(HELLO.replace('claude', model))).text()
    rows.push(await lastRow())
  }
  const [native, anew] = rows
  expect([native, anew]).toMatchObject([{ lane: 'native' }, { lane: 'translated' }])
  const OF_MONEY = [
    'prompt_tokens',
    'cached_tokens',
    'cache_write_tokens',
    'completion_tokens',
    'cost_nano_usd',
    'estimated',
    'status',
  ] as const
  const told = OF_MONEY.map((name) => Reflect.get(anew ?? {}, name))
  expect(OF_MONEY.map((name) => Reflect.get(native ?? {}, name))).toEqual(told)
  expect(native?.cost_nano_usd).toBe(10 * 3_000 + 300 * 300 + 10 * 3_750 + 30 * 6_000 + 7 * 15_000)
})

test('reasoning sealed here returns only to its own upstream', async () => {
  const details = (signer: string) => [
    { type: 'reasoning.text', text: 'Hm', signature: 'c2ln', format: 'anthropic-claude-v1', index: 0, signer },
  ]
  gateway.upstream.script(toStream(toAnswer('Hello')))
  const toBody = (signature: string) =>
    `{"model":"anthropic/claude","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":[{"type":"thinking","thinking":"Hm","signature":"${signature}"} ,{"type":"text","text":"tg1.","n":1.0}]}, {"role":"user","content":"And?"}]}`
  await (await gateway.post(toBody(encodeState(details('anthropic/claude-up'), 'Hm')))).text()
  expect(lastSent()?.body).toBe(
    toBody('c2ln').replace('anthropic/claude', 'claude-up').replace('} ,{"type":"text"', '},{"type":"text"'),
  )
  await (await gateway.post(toBody(encodeState(details('another'), 'Hm')))).text()
  expect(lastSent()?.body).toBe(
    toBody('')
      .replace('anthropic/claude', 'claude-up')
      .replace('{"type":"thinking","thinking":"Hm","signature":""} ,', ''),
  )
})

describe("another key's data at the provider, or a field without a price, isn't passed on", () => {
  const ask = async (fields: string, model = 'claude') => {
    const before = gateway.upstream.requests.length
    const said = fields.includes('"messages"') ? '' : ',"messages":[{"role":"user","content":"Hi"}]'
    const body = `{"model":"anthropic/${model}","max_tokens":9${said}${fields}}`
    gateway.upstream.script({
      kind: 'whole',
      body: {
        id: 'msg_up',
        type: 'message',
        role: 'assistant',
        model: 'claude-up',
        content: [],
        stop_reason: 'end_turn',
        usage: { input_tokens: 1, output_tokens: 1 },
      },
    })
    const response = await gateway.post(body)
    const sent = gateway.upstream.requests.slice(before).map((seen) => seen.body)
    return {
      status: response.status,
      lane: response.headers.get('x-tollgate-passthrough') === 'true' ? 'native' : 'translated',
      text: await response.text(),
      sent,
      body,
    }
  }

  test.each([',"thread":{"type":"create"}', ',"compaction":{"type":"summarize"}'])('%s, by name', async (fields) => {
    const { status, text, sent } = await ask(fields)
    expect({ status, sent }).toEqual({ status: 400, sent: [] })
    expect(text).toMatch(/thread_unsupported_request|compaction: /)
  })

  test.each([
    [',"container":"c_1"', 'container'],
    [',"Container":"c_1"', 'Container'],
    [',"previous_response_id":"r"', 'previous_response_id'],
    [',"inference_geo":"us"', 'inference_geo'],
    [
      ',"messages":[{"role":"user","content":[{"type":"document","source":{"type":"file","file_id":"f"}}]}]',
      'messages[0].content[0].source.file_id',
    ],
    [
      ',"system":[{"type":"text","text":"a"},{"type":"x","content":[{"source":{"File_Id":"f"}}]}]',
      'system[1].content[0].source.File_Id',
    ],
    [
      ',"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"gs://bucket/o"}}]}]',
      'messages[0].content[0].source.url',
    ],
  ])('%s', async (fields, param) => {
    const { status, text, sent } = await ask(fields)
    expect({ status, sent }).toEqual({ status: 400, sent: [] })
    expect(text).toContain(`'${param}' is not supported`)
  })

  test.each([',"tools":[{"type":"web_search_20250305","name":"web_search"}]', ',"speed":"fast"'])(
    '%s is dropped, and the request is translated, if its price is unknown',
    async (fields) => {
      const { lane, sent } = await ask(fields)
      expect(lane).toBe('translated')
      expect(sent.join()).not.toMatch(/web_search|fast|"us"/)
    },
  )

  const said = (block: string) => `,"messages":[{"role":"user","content":[{"type":"text","text":"Hi"},${block}]}]`

  describe('an unlisted field is dropped, and the request is translated', () => {
    test.each([
      ...[',"unheard_of":{"from":"msg_1"}', ',"unheard_of":"msg_1"', ',"unheard_of":["msg_1"]', ',"unheard_of":"fast"'],
      ...[',"diagnostics":{"previous_message_id":"msg_1"}', ',"context_management":{"edits":[],"unheard_of":"x"}'],
      ',"tools":[{"type":"unheard_of_20270101","name":"t"}]',
      ',"tools":[{"name":"t","input_schema":{"type":"object"},"unheard_of":"fast"}]',
      ',"messages":[{"role":"user","content":"Hi","unheard_of":{"type":"continue","id":"msg_1"}}]',
      ',"messages":[{"role":"user","content":"Hi","unheard_of":"msg_1"}]',
      said('{"type":"unheard_of"}'),
      said('{"type":"text","text":"a","unheard_of":["Msg_1"]}'),
      said(
        '{"type":"tool_change","tool_changes":[{"type":"tool_addition","tool":{"type":"tool_definition","definition":{"type":"advisor_20260301","name":"a","model":"dear"}}}]}',
      ),
      said('{"type":"text","text":"a","thread":{"type":"create"}}'),
    ])('%s', async (fields) => {
      const { lane, sent } = await ask(fields)
      expect(lane).toBe('translated')
      expect(sent.join()).not.toMatch(/unheard_of|msg_1|advisor|thread/i)
    })
  })

  describe("an unlisted field passes if it can't cost, store, or reach anything", () => {
    test.each([
      ...[',"unheard_of":7', ',"unheard_of":true', ',"unheard_of":null'],
      ',"tools":[{"name":"t","input_schema":{"type":"object"},"unheard_of":false}]',
      said('{"type":"text","text":"a","unheard_of":{"stage":"final_answer","parts":[1,"done",true]}}'),
      said('{"type":"text","text":"a","cache_control":{"type":"ephemeral","scope":"global"}}'),
    ])('%s', async (fields) => {
      const { lane, sent, body } = await ask(fields)
      expect({ lane, sent }).toEqual({ lane: 'native', sent: [body.replace('anthropic/claude', 'claude-up')] })
    })
  })

  test('a bill to another account is rejected by name', async () => {
    const { status, text, sent } = await ask(',"billing_policy":{"type":"billing_policy","bill_to":"user_profile"}')
    expect({ status, sent }).toEqual({ status: 400, sent: [] })
    expect(text).toContain("'billing_policy' is not supported")
  })

  test('a search with a price passes', async () => {
    const { lane, sent, body } = await ask(',"tools":[{"type":"web_search_20250305","name":"web_search"}]', 'searching')
    expect({ lane, sent }).toEqual({ lane: 'native', sent: [body.replace('anthropic/searching', 'claude-up')] })
  })

  test('tools may give their inputs any names', async () => {
    const tool = '{"name":"t","input_schema":{"type":"object","properties":{"file_id":{"type":"string"}}}}'
    const call =
      '{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"t","input":{"file_id":"f","container":1}}]}'
    const said = '{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"ok"}]}'
    const body = `{"model":"anthropic/claude","max_tokens":9,"stream":true,"tools":[${tool}],"messages":[{"role":"user","content":"Hi"},${call},${said}]}`
    const response = await gateway.post(body)
    expect(await response.text()).toContain('message_stop')
    expect(lastSent()?.body).toBe(body.replace('anthropic/claude', 'claude-up'))
  })
})

const AGENTS = join(import.meta.dir, '../../../shared/data/agents')

describe.skipIf(!hasRecordings)('a recorded agent request', () => {
  const files = hasRecordings
    ? readdirSync(AGENTS, { recursive: true, encoding: 'utf8' })
        .filter((file) => /claude-code.*\.json$/.test(file))
        .sort()
    : []
  const requests = files.flatMap((file): [string, string][] => {
    const { request } = JSON.parse(readFileSync(join(AGENTS, file), 'utf8'))
    const isAsked = request.method === 'POST' && /\/messages(\?|$)/.test(request.url)
    return isAsked ? [[file, JSON.stringify({ ...request.body, model: 'anthropic/claude' })]] : []
  })

  test.each(requests)('passes byte for byte: %s', async (_, body) => {
    const answer: Script = ({ json }) =>
      json?.stream
        ? (toStream(toAnswer('Hello')) as never)
        : { kind: 'whole', body: { ...JSON.parse(START).message, stop_reason: 'end_turn' } }
    gateway.upstream.script(answer)
    const response = await gateway.post(body)
    expect(response.status).toBe(200)
    await response.text()
    if (response.headers.get('x-tollgate-passthrough') === 'true')
      expect(lastSent()?.body).toBe(body.replace('"model":"anthropic/claude"', '"model":"claude-up"'))
    else expect(body).toMatch(/json_schema|web_search/)
  })
})

describe.skipIf(!hasRecordings)('a recorded response of Anthropic', () => {
  test.each([
    'advisor-stream.sse',
    'compaction-cache-stream.sse',
    'redacted-thinking-stream.sse',
    'thinking-stream.sse',
    'web-fetch-stream.sse',
  ])('comes back byte for byte: %s', async (file) => {
    const text = readRecording(`anthropic/${file}`)
    gateway.upstream.script({ kind: 'stream', steps: [text], end: 'eof', bytesPerWrite: 997 })
    const response = await gateway.post(HELLO)
    const id = /"id":"msg_[^"]+"/.exec(text)?.[0] ?? ''
    const model = /"model":"[^"]+"/.exec(text)?.[0] ?? ''
    expect(await response.text()).toBe(
      text.replace(id, `"id":"msg_${idOf(response)}"`).replace(model, '"model":"anthropic/claude"'),
    )
    expect(await lastRow()).toMatchObject({ lane: 'native', status: 'ok', estimated: 0 })
  })
})

test("a client's own IDs and models break nothing", async () => {
  for (const id of ['"\\"},{\\u0000"', 'null', '{"id":"x"}', '[["', '1e999', `"${'x'.repeat(100_000)}"`]) {
    const start = START.replace('"msg_up"', id.endsWith('[["') ? '"[[\\""' : id)
    gateway.upstream.script(toStream([start, ...toAnswer('x').slice(1)]))
    const response = await gateway.post(HELLO)
    const [, first = ''] = /data: (.*)\n/.exec(await response.text()) ?? []
    expect(JSON.parse(first).message).toMatchObject({
      id: `msg_${idOf(response)}`,
      model: 'anthropic/claude',
      role: 'assistant',
    })
  }
})

describe('an unparsed part of a request', () => {
  /** An unknown block: 40,000 bytes are estimated at 10,000 tokens, and at most 40,000. */
  const long = HELLO.replace('"Hi"', `[{"type":"text","text":"Hi"},{"type":"new","words":"${'word '.repeat(8_000)}"}]`)

  test('is reserved by its bytes', async () => {
    await (await gateway.post(long)).text()
    const row = await lastRow()
    expect(row?.reserved_prompt_tokens).toBeGreaterThan(10_000)
    expect(row?.reserved_prompt_tokens).toBeLessThan(10_200)
  })

  test.each([
    [
      'thoughts',
      `{"type":"thinking","thinking":"${' '.repeat(40_000)}","signature":""}`,
      '{"type":"text","text":"x"}',
      10_000,
    ],
    [
      'the arguments of a call',
      `{"type":"tool_use","id":"t","name":"f","input":{"a":"${'\\"'.repeat(20_000)}"}}`,
      '{"type":"tool_result","tool_use_id":"t","content":""}',
      20_000,
    ],
  ])("isn't hidden behind %s, which appears more than once", async (_, block, next, tokens) => {
    const turns = `,{"role":"assistant","content":[${block}]},{"role":"user","content":[${next}]}]`
    await (await gateway.post(long.replace(/]}]$|]}](?=[,}])/, (end) => end.slice(0, -1) + turns))).text()
    expect((await lastRow())?.reserved_prompt_tokens).toBeGreaterThan(tokens)
  })

  test('must be covered by the budget', async () => {
    const before = gateway.upstream.requests.length
    const poor = gateway.app.key({ name: 'poor', budget: { nanoUsd: 9_000 * 3_000, period: 'day' } })
    const response = await gateway.post(long, {}, poor)
    expect(response.status).toBe(429)
    expect(gateway.upstream.requests.length).toBe(before)
    expect((await gateway.post(HELLO, {}, poor)).status).toBe(200)
  })
})

test('an event up to the limit passes, and a larger one ends the response', async () => {
  const fitting = 'x'.repeat(4 * 1024 * 1024 - 1_000)
  gateway.upstream.script(toStream(toAnswer(fitting)))
  const whole = await (await gateway.post(HELLO)).text()
  expect(whole).toContain(fitting)
  expect(whole).toContain('event: message_stop')
  gateway.upstream.script(toStream(toAnswer('a', 'x'.repeat(4 * 1024 * 1024 + 1_000))))
  const cut = await (await gateway.post(HELLO)).text()
  expect(cut.slice(cut.lastIndexOf('event: '))).toStartWith('event: error\n')
  expect(await lastRow()).toMatchObject({ lane: 'native', status: 'cut' })
})
