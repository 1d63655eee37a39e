/** Upstreams with a `process`: valid fields, stored hashes, and files whose commands are used. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { toFileEntries } from '../../src/catalog/fields.ts'
import { parseSource } from '../../src/catalog/file.ts'
import { loadProcesses } from '../../src/catalog/model-files.ts'
import { loadSource } from '../../src/catalog/source.ts'
import { parse, problemsOf } from './parsing.ts'

const FACTS = 'context_length: 4096, max_output_length: 1000, input_modalities: [text], output_modalities: [text]'

/** A whole file: an upstream with these fields, and a model with a route to it. */
const toFile = (fields: string, id = 'gemma', top = '') => `version: 1
${top}
upstreams: { ${id}: { dialect: openai, ${fields} } }
models: { local/${id}: { name: X, ${FACTS}, supported_features: [], routes: [{ upstream: ${id}, model: x }] } }
`

const COMMAND = 'process: [llama-server, -m, /models/secret-place.gguf, --port, "{port}"]'

const rowOf = async (fields: string) => {
  const { catalog } = await parse(toFile(fields))
  const [row] = catalog.upstreams
  if (!row) throw new Error('there is no upstream')
  return row
}

describe('an upstream with a process', () => {
  test('is free, has no URL, and stores only a hash of the command', async () => {
    const row = await rowOf(`${COMMAND}, idle: 5m, memory: 4G, pin: true, deadlines: { start: 90s, idle: 30s }`)
    expect(row).toMatchObject({ baseUrl: null, apiKeyRef: null, local: true, deadlines: { idle: 30_000 } })
    expect(row.options).toEqual({ process: expect.stringMatching(/^sha256:[0-9a-f]{64}$/) })
    expect(JSON.stringify(row)).not.toContain('secret-place')
  })

  test('has another hash for each change of the command', async () => {
    const ways = [
      '',
      'idle: 5m',
      'idle: off',
      'memory: 4G',
      'device: CUDA0',
      'pin: true',
      'preload: true',
      'health: /ok',
    ]
    const more = [...ways, 'stop_command: [docker, rm, -f, x]', 'deadlines: { start: 5m }']
    const hashes = await Promise.all(more.map(async (way) => (await rowOf(`${COMMAND}, ${way}`)).options.process))
    expect(new Set(hashes).size).toBe(more.length)
    expect((await rowOf(`${COMMAND}, concurrency: 2`)).options.process).toBe(hashes[0] ?? '')
  })

  test('is exported with only its hash, which equals the stored one', async () => {
    const row = await rowOf(`${COMMAND}, pin: true, device: CUDA1`)
    const rows = [{ ...row, origin: 'file' as const, createdMs: 0, updatedMs: 0 }]
    const { upstreams } = toFileEntries({ upstreams: rows, models: [], routes: [], aliases: [] })
    const { catalog } = await parse(JSON.stringify({ version: 1, upstreams, models: {} }))
    expect(catalog.upstreams).toEqual([row])
  })

  const WRONG: [fields: string, problem: string][] = [
    [
      'process: "llama-server -m x"',
      'upstreams.gemma.process: must be a list, such as [llama-server, -m, /models/x.gguf, --port, "{port}"].',
    ],
    ['process: [llama-server]', 'upstreams.gemma.process: has no port.'],
    ['process: [x, "{port}", "{prot}"]', 'upstreams.gemma.process[2]: {prot} is unknown.'],
    [
      `${COMMAND}, base_url: "http://127.0.0.1:1/v1"`,
      "upstreams.gemma.base_url: an upstream with process can't have base_url.",
    ],
    [`${COMMAND}, api_key: "\${X}"`, "upstreams.gemma.api_key: an upstream with process can't have api_key."],
    [`${COMMAND}, memory: 4`, 'upstreams.gemma.memory: must be a size with a unit, such as 22G or 512M.'],
    [`${COMMAND}, device: "CUDA0,CUDA1"`, 'upstreams.gemma.device: must be a device name, such as CUDA0 or cpu.'],
    ['base_url: "http://127.0.0.1:1/v1", local: true, device: cpu', 'upstreams.gemma.device: device requires process.'],
    [`${COMMAND}, idle: 10`, 'upstreams.gemma.idle: 10 needs a unit: write 10s for seconds or 10ms for milliseconds.'],
    [`${COMMAND}, health: health`, 'upstreams.gemma.health: must be a path'],
    [
      `${COMMAND}, deadlines: { start: never }`,
      'upstreams.gemma.deadlines.start: must be a duration, such as 500ms, 60s, 5m or 1h, at most 24 days.',
    ],
    ['base_url: "http://127.0.0.1:1/v1", local: true, pin: true', 'upstreams.gemma.pin: pin requires process.'],
    [
      'base_url: "http://127.0.0.1:1/v1", local: true, deadlines: { start: 5s }',
      'deadlines.start: start requires process.',
    ],
  ]

  test.each(WRONG)('is refused: %s', async (fields, problem) => {
    expect((await problemsOf(toFile(fields))).join('\n')).toContain(problem)
  })

  test('is invalid for the built-in model, and memory is a size', async () => {
    expect((await problemsOf(toFile(COMMAND).replace('openai', 'demo'))).join('\n')).toContain('dialects have process')
    expect((await problemsOf(toFile(COMMAND, 'a', 'memory: lots'))).join('\n')).toContain('memory: must be a size')
  })

  const OF_DEVICES: [memory: string, fields: string, problems: string[]][] = [
    [
      '{ CUDA0: 22G, cpu: 60G }',
      'pin: true',
      ["upstreams.a.device: is missing, because the catalog's memory is per device. Set it to CUDA0 or cpu."],
    ],
    [
      '{ CUDA0: 22G }',
      'device: CUDA1',
      ["upstreams.a.device: is not in the catalog's memory. Use CUDA0, or add CUDA1 there."],
    ],
    ['22G', 'device: CUDA1', ["the catalog's memory is one size. Write it as { CUDA1: 22G }, or remove this."]],
    [
      '{ CUDA0: 22, "a b": 1G }',
      'device: cpu',
      [
        'memory.CUDA0: must be a size with a unit, such as 22G or 512M.',
        'memory.a b: must be a device name, such as CUDA0 or cpu.',
      ],
    ],
    ['{}', 'device: cpu', ['memory: is empty. Write a size, such as 22G, or one per device, such as { CUDA0: 22G }.']],
  ]

  test.each(OF_DEVICES)('with memory %s and %s says what to write', async (memory, fields, expected) => {
    const problems = await problemsOf(toFile(`${COMMAND}, ${fields}`, 'a', `memory: ${memory}`))
    expect(problems).toEqual(expected.map((problem) => expect.stringContaining(problem)))
  })

  test('keeps the hash of an earlier version', async () => {
    expect((await rowOf(`${COMMAND}, memory: 4G`)).options.process).toBe(
      'sha256:37b98cacb9cf6645e29f763003a3baf9b675d55d7691964139a9a99de2050600',
    )
  })
})

describe('commands are used', () => {
  let folder = ''
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'tollgate-models-'))
    mkdirSync(join(folder, 'models.d'), { mode: 0o700 })
  })
  afterEach(() => rmSync(folder, { recursive: true, force: true }))

  const write = (name: string, text: string, mode = 0o600) => {
    const path = join(folder, name)
    writeFileSync(path, text)
    chmodSync(path, mode)
    return path
  }
  const load = async (file?: string) => {
    const source = await loadSource({ file, dataFolder: folder, cwd: '/' })
    const { specs, ignored } = await loadProcesses(source, file !== undefined)
    return { ids: [...specs.byUpstream.keys()], memory: [...specs.memory], ignored, specs, source }
  }

  test('from the named file and from model files', async () => {
    const named = write('own.yaml', toFile(COMMAND, 'a', 'memory: 22G'))
    write('models.d/b.yaml', toFile(COMMAND, 'b', 'memory: 1G'))
    const { ids, memory, ignored, specs, source } = await load(named)
    expect([ids, memory, ignored]).toEqual([['a', 'b'], [[null, 22 * 2 ** 30]], []])
    const { catalog } = await parseSource(source, {})
    expect(catalog.upstreams.map(({ id, options }) => [id, options.process])).toEqual(
      ['a', 'b'].map((id) => [id, specs.byUpstream.get(id)?.hash]),
    )
  })

  test('not from an unnamed file, which is reported', async () => {
    write('catalog.yaml', toFile(COMMAND, 'a', 'memory: 8G'))
    const { ids, memory, ignored } = await load()
    expect([ids, memory]).toEqual([[], [[null, 8 * 2 ** 30]]])
    expect(ignored).toEqual([
      `${join(folder, 'catalog.yaml')}: commands of a are ignored. To run them, name this file with --catalog.`,
    ])
  })

  test('not from a file that others can write', async () => {
    const path = write('models.d/b.yaml', toFile(COMMAND, 'b'), 0o666)
    expect(await load()).toMatchObject({ ids: [], ignored: [expect.stringContaining(`chmod go-w ${path}`)] })
  })

  test.skipIf(process.getuid?.() !== 0)('not in a file of another user', async () => {
    const path = write('models.d/b.yaml', toFile(COMMAND, 'b'))
    chownSync(path, 65_534, 65_534)
    expect(await load()).toMatchObject({
      ids: [],
      ignored: [expect.stringContaining(`${path} belongs to user 65534. Run the server as that user`)],
    })
  })

  test.each(['models.d', '.'])('not from a folder in which others can replace the file: %s', async (name) => {
    write('models.d/b.yaml', toFile(COMMAND, 'b'))
    const open = join(folder, name)
    chmodSync(open, 0o777)
    expect(await load()).toMatchObject({
      ids: [],
      ignored: [expect.stringMatching(new RegExp(`chmod go-w ${open}$`))],
    })
  })

  test('with the devices of the first file that has memory', async () => {
    const named = write('own.yaml', toFile(`${COMMAND}, device: cpu`, 'a', 'memory: { CUDA0: 22G, cpu: 60G }'))
    write('models.d/b.yaml', toFile(`${COMMAND}, device: CUDA0`, 'b'))
    const { ids, memory, specs, source } = await load(named)
    expect([ids, memory]).toEqual([
      ['a', 'b'],
      [
        ['CUDA0', 22 * 2 ** 30],
        ['cpu', 60 * 2 ** 30],
      ],
    ])
    expect([...specs.byUpstream.values()].map(({ device }) => device)).toEqual(['cpu', 'CUDA0'])
    expect((await parseSource(source, {})).catalog.upstreams.length).toBe(2)
    write('models.d/c.yaml', toFile(COMMAND, 'c'))
    expect(parseSource((await load(named)).source, {})).rejects.toThrow(
      'models.d/c.yaml: upstreams.c.device is missing',
    )
  })

  test('only once: a duplicate in two files is refused', async () => {
    const named = write('own.yaml', toFile(COMMAND, 'a'))
    write('models.d/a.yaml', toFile(COMMAND, 'a'))
    const { source } = await load(named)
    expect(parseSource(source, {})).rejects.toThrow('models.d/a.yaml: upstreams.a is also declared in another file.')
  })
})
