/** Chat requests as code: it would send exactly the request. Where possible, the code is run against a server. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { EXAMPLES, toEndpointSnippets } from '../../src/dashboard/snippets/endpoints.ts'
import {
  JSON_TEXT,
  PYTHON,
  SCRIPT,
  toCurl,
  toGo,
  toJavaScript,
  toLiteral,
  toPython,
  toTypeScript,
} from '../../src/dashboard/snippets/snippets.ts'
import { keysOf } from '../../src/domain/json.ts'
import { startMediaUpstream } from '../support/media-upstream.ts'

const AWKWARD = `it's "quoted" \\" \`raw\` \${x} $(date) \u2028 \ufeff é日😀\n\tJSON\n`
const body = {
  model: 'a/b',
  messages: [
    { role: 'system', content: AWKWARD },
    { role: 'user', content: [{ type: 'image_url', image_url: { url: `data:image/png;base64,${'A'.repeat(300)}` } }] },
  ],
  stream: true,
  temperature: 0.5,
  stop: null,
  parallel_tool_calls: false,
  top_k: 40,
  'min-p': {},
}

test('a literal has the same value', () => {
  const values = [body, [], {}, [[]], AWKWARD, -1.5e-7, { __proto__: null, 'a-b': [true, null], $a: 1 }]
  for (const value of values) {
    expect(JSON.parse(toLiteral(value, JSON_TEXT))).toEqual(value)
    expect(new Function(`return ${toLiteral(value, SCRIPT)}`)()).toEqual(value)
  }
  expect(toLiteral({ a: [true, null] }, PYTHON)).toBe('{"a": [True, None]}')
  const own = JSON.parse('{"__proto__": 1}')
  expect(Object.keys(new Function(`return ${toLiteral(own, SCRIPT)}`)())).toEqual(['__proto__'])
})

test("a value that doesn't fit on a line has a line per item", () => {
  const text = toLiteral({ role: 'user', content: 'x'.repeat(90), n: [1, 2] }, SCRIPT)
  expect(text).toBe(`{\n  role: 'user',\n  content: '${'x'.repeat(90)}',\n  n: [1, 2],\n}`)
})

test("Python passes fields that its library doesn't know separately", () => {
  const text = toPython({ baseUrl: 'http://a/v1', secret: 'sk', body })
  expect(text).toContain('    parallel_tool_calls=False,\n')
  expect(text).toContain('    extra_body={"top_k": 40, "min-p": {}},\n)')
})

test('Go has the body in a raw string', () => {
  const [, raw = ''] = /const body = `([^`]*)`/.exec(toGo({ baseUrl: 'http://a/v1', secret: 'sk', body })) ?? []
  expect(JSON.parse(raw)).toEqual(body)
  expect(raw).not.toContain('\ufeff')
})

describe('unchanged', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-snippets-'))
  const asked: unknown[] = []
  const frames = ['Hel', 'lo'].map((content) => `data: ${JSON.stringify({ choices: [{ delta: { content } }] })}\n\n`)
  const server = Bun.serve({
    ...{ port: 0, hostname: '127.0.0.1' },
    async fetch(request) {
      asked.push([new URL(request.url).pathname, request.headers.get('authorization'), await request.json()])
      return new Response(`: keep-alive\n\n${frames.join('')}data: {"choices":[],"usage":{}}\n\ndata: [DONE]\n\n`, {
        headers: { 'content-type': 'text/event-stream' },
      })
    },
  })
  const call = { baseUrl: `http://127.0.0.1:${server.port}/v1`, secret: "sk-'1", body }
  beforeAll(() => {
    asked.length = 0
  })
  afterAll(async () => {
    await server.stop(true)
    rmSync(folder, { recursive: true })
  })

  const run = async (words: string[], name?: string, text?: string) => {
    const [command = '', ...others] = words
    if (name !== undefined) await Bun.write(join(folder, name), String(text))
    const child = Bun.spawn([command, ...others], { cwd: import.meta.dir, stdout: 'pipe', stderr: 'pipe' })
    const [stdout, stderr] = await Promise.all([child.stdout.text(), child.stderr.text()])
    if ((await child.exited) !== 0) throw new Error(stderr)
    return stdout
  }
  const wasAsked = () => expect(asked.pop()).toEqual(['/v1/chat/completions', `Bearer ${call.secret}`, body])

  test.skipIf(Bun.which('curl') === null)('curl sends it', async () => {
    expect(await run(['sh', '-c', toCurl(call)])).toContain('"Hel"')
    wasAsked()
  })

  test('JavaScript sends it', async () => {
    expect(await run([process.execPath, join(folder, 'a.mjs')], 'a.mjs', toJavaScript(call))).toBe('Hello')
    wasAsked()
  })

  test('TypeScript sends it', async () => {
    const openai = JSON.stringify(Bun.resolveSync('openai', import.meta.dir))
    const text = toTypeScript(call).replace("'openai'", openai)
    expect(await run([process.execPath, join(folder, 'a.ts')], 'a.ts', text)).toBe('Hello')
    wasAsked()
  })
})

describe('requests other than chats', () => {
  const upstream = startMediaUpstream()
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-snippets-'))
  afterAll(async () => {
    await upstream.stop()
    rmSync(folder, { recursive: true })
  })
  const openai = JSON.stringify(Bun.resolveSync('openai', import.meta.dir))
  const PROGRAMS = {
    curl: (text: string) => ['sh', '-c', text],
    JavaScript: (_: string, file: string) => [process.execPath, file],
    TypeScript: (_: string, file: string) => [process.execPath, file],
    // Set where its library is installed: PYTHON=venv/bin/python.
    Python: (_: string, file: string) => [process.env.PYTHON ?? 'python3', file],
  }

  test.each(keysOf(EXAMPLES))('%s are sent unchanged, and the result is used', async (endpoint) => {
    const fields = { model: 'a/b', ...EXAMPLES[endpoint] }
    const sentFile = { transcriptions: 'a.mp3', translations: 'a.mp3', image_edits: 'a.jpg' }[endpoint as string]
    if (sentFile) await Bun.write(join(folder, sentFile), 'ID3')
    const call = { endpoint, baseUrl: upstream.url, secret: "sk-'1", fields, file: sentFile }
    for (const { title, text } of toEndpointSnippets(call)) {
      if (title === 'Python' && process.env.PYTHON === undefined) continue
      if (title === 'curl' && Bun.which('curl') === null) continue
      const path = join(folder, title === 'Python' ? 'a.py' : 'a.ts')
      await Bun.write(path, text.replace("'openai'", openai))
      const words = PROGRAMS[title as keyof typeof PROGRAMS](text, path)
      const child = Bun.spawn(words, { cwd: folder, stdout: 'pipe', stderr: 'pipe' })
      const [stdout, stderr] = await Promise.all([child.stdout.text(), child.stderr.text()])
      expect([title, await child.exited, stdout + stderr]).toEqual([title, 0, expect.any(String)])
      const { file, image, ...asked } = upstream.asked.pop() ?? {}
      expect([title, asked, upstream.asked]).toEqual([title, expect.objectContaining(fields), []])
      const sent = [file, image].find((one) => one instanceof File)
      expect([title, sent?.name]).toEqual([title, sentFile])
      if (endpoint === 'image_edits') expect([title, sent?.type]).toEqual([title, 'image/jpeg'])
      const saved = { speech: 'speech.mp3', images: 'image-1.png', image_edits: 'image-1.png' }[endpoint as string]
      if (saved && title !== 'curl') expect(Bun.file(join(folder, saved)).size).toBeGreaterThan(100)
    }
  })

  test.skipIf(Bun.which('curl') === null).each(['@a.txt', '<a.txt', 'Night; type=text/html', '"Night" it is'])(
    'curl sends %s as it is typed',
    async (prompt) => {
      const file = 'a, "b"; c.jpg'
      await Promise.all([Bun.write(join(folder, file), 'ID3'), Bun.write(join(folder, 'a.txt'), 'secret')])
      const fields = { model: 'a/b', prompt }
      const call = { endpoint: 'image_edits' as const, baseUrl: upstream.url, secret: 'sk', fields, file }
      const text = toEndpointSnippets(call).find(({ title }) => title === 'curl')?.text ?? ''
      const child = Bun.spawn(['sh', '-c', text], { cwd: folder, stdout: 'ignore', stderr: 'pipe' })
      expect([await child.exited, await child.stderr.text()]).toEqual([0, expect.any(String)])
      const { image, ...asked } = upstream.asked.pop() ?? {}
      expect(asked).toEqual(fields)
    },
  )
})
