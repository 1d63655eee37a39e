/**
 * `tollgate models add | remove`: the config file of a local model, the output, and refusals before anything is
 * written.
 */
import { beforeEach, describe, expect, test } from 'bun:test'
import { existsSync, mkdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseText } from '../../src/catalog/document.ts'
import { CHAT, makeGguf, PROJECTOR } from '../support/gguf.ts'
import { forEachTest } from '../support/lifetime.ts'
import { installLlamaServer } from '../support/llama-server.ts'
import { createBench } from './run.ts'

const bench = forEachTest(createBench)
beforeEach(() => {
  installLlamaServer(join(bench.folder, 'bin'))
  bench.environment.PATH = join(bench.folder, 'bin')
})

const write = (name: string, values = CHAT) => {
  const path = join(bench.folder, name)
  mkdirSync(join(path, '..'), { recursive: true })
  writeFileSync(path, makeGguf({ values }))
  return path
}
const fileOf = (name: string) => join(bench.folder, 'models.d', `${name}.yaml`)
const read = async (name: string) => (await parseText(await Bun.file(fileOf(name)).text())).raw
const listed = async () =>
  (JSON.parse((await bench.run('models', 'list', '--json')).stdout) as { models: { slug: string }[] }).models.map(
    ({ slug }) => slug,
  )

describe('models add', () => {
  test('writes how the model is served, readable only by its owner, and lists it', async () => {
    const path = write('Tiny Chat-Q4_K_M.gguf')
    const { code, stdout, stderr } = await bench.run('models', 'add', path, '--context', '2048', '--slots', '3')
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout).toContain('Tiny Chat: llama, Q4_K_M')
    expect(stdout).toContain('tollgate ask --model local/tiny-chat-q4_k_m Hello')
    expect(statSync(fileOf('tiny-chat-q4_k_m')).mode & 0o777).toBe(0o600)
    const command = [
      'llama-server',
      '-m',
      path,
      '--host',
      '127.0.0.1',
      '--port',
      '{port}',
      '--alias',
      '{slug}',
      '--jinja',
    ]
    expect(await read('tiny-chat-q4_k_m')).toEqual({
      version: 1,
      upstreams: {
        'tiny-chat-q4_k_m': {
          dialect: 'openai',
          process: [
            ...[...command, '--offline', '--no-ui', '-np', '3', '-c', '6144', '-b', '512', '-t', expect.any(String)],
            ...['--metrics', '-lv', '4'],
          ],
          concurrency: 3,
          memory: '35M',
          deadlines: { start: '120s' },
        },
      },
      models: {
        'local/tiny-chat-q4_k_m': {
          name: 'Tiny Chat',
          owned_by: 'local',
          context_length: 2048,
          max_output_length: 1024,
          input_modalities: ['text'],
          output_modalities: ['text'],
          supported_features: ['tools', 'json_mode', 'structured_outputs'],
          routes: [{ upstream: 'tiny-chat-q4_k_m', model: 'local/tiny-chat-q4_k_m' }],
        },
      },
    })
    expect(await listed()).toContain('local/tiny-chat-q4_k_m')
    expect((await bench.run('audit', 'log')).stdout).toContain('models.d/tiny-chat-q4_k_m.yaml')
  })

  test('accepts a folder with a projector, and a name', async () => {
    write('gemma/g.gguf')
    const projector = write('gemma/mmproj-g.gguf', PROJECTOR)
    const { stdout } = await bench.run('models', 'add', 'gemma', '--name', 'gemma', '--memory', '4G', '--json')
    expect(JSON.parse(stdout)).toMatchObject({
      ...{ model: 'local/gemma', mmproj: projector, context_length: 8192, memory_bytes: 4 * 2 ** 30, applied: true },
      input_modalities: ['text', 'image'],
    })
    expect(JSON.stringify(await read('gemma'))).toContain(`"--mmproj","${projector}"`)
  })

  test('configures embedding models for a text in one batch', async () => {
    write('e.gguf', { ...CHAT, 'llama.pooling_type': 1 })
    const { code } = await bench.run('models', 'add', 'e.gguf', '--context', '512')
    expect(code).toBe(0)
    expect(JSON.stringify(await read('e'))).toContain('"--embeddings","-b","512","-ub","512"')
    expect((await bench.run('models', 'show', 'local/e')).stdout).toContain('embeddings')
  })

  test('warns if more models are planned than fit, until a file limits them', async () => {
    write('a.gguf')
    const add = async (name: string) =>
      (await bench.run('models', 'add', 'a.gguf', '--name', name, '--memory', '90000G')).stderr
    expect(await add('one')).not.toContain('models of models.d')
    expect(await add('two')).toContain('All 2 models in models.d need 180000.0 GiB')
    await Bun.write(fileOf('one'), `memory: 8G\n${await Bun.file(fileOf('one')).text()}`)
    expect(await add('three')).not.toContain('models of models.d')
  })

  test("counts a device's memory, and tells llama-server the device", async () => {
    write('gemma/g.gguf')
    write('gemma/mmproj-g.gguf', PROJECTOR)
    await Bun.write(
      join(bench.folder, 'catalog.yaml'),
      'version: 1\nmemory: { CUDA1: 30M, cpu: 60G }\nupstreams: {}\nmodels: {}\n',
    )
    const add = (...words: string[]) => bench.run('models', 'add', 'gemma', ...words)
    const refused = [await add(), await add('--device', 'gpu9'), await add('--device', 'a b')]
    expect(refused.map(({ code }) => code)).toEqual([2, 2, 2])
    expect(refused[0]?.stderr).toContain("--device is missing, because the catalog's memory is per device")
    expect(refused[1]?.stderr).toContain('Use CUDA1 or cpu')
    const { code, stdout, stderr } = await add('--device', 'CUDA1', '--name', 'card')
    expect([code, stdout]).toEqual([0, expect.stringContaining(' reserved on CUDA1; estimated')])
    expect(stderr).toContain('must be listed by: llama-server --list-devices')
    expect(stderr).toContain('the catalog gives CUDA1 30 MiB. Choose a smaller')
    const text = JSON.stringify(await read('card'))
    expect(text).toContain('"process":["env","MTMD_BACKEND_DEVICE=CUDA1","llama-server","-m"')
    expect(text).toContain('"--device","CUDA1"')
    expect(text).toContain('"device":"CUDA1"')
    expect((await add('--device', 'cpu', '--name', 'slow')).code).toBe(0)
    expect(JSON.stringify(await read('slow'))).toContain('"--device","none","--no-mmproj-offload"')
    expect(await listed()).toEqual(expect.arrayContaining(['local/card', 'local/slow']))
  })

  test("doesn't trust a file's own name", async () => {
    write('a.gguf', { ...CHAT, 'general.name': `\u001b[2J\u202e${'x'.repeat(100_000)}` })
    const { code, stdout } = await bench.run('models', 'add', 'a.gguf')
    expect([code, stdout]).toEqual([0, expect.not.stringMatching(/\p{Bidi_Control}/u)])
    expect(stdout).not.toContain('\u001b')
    expect(stdout.length).toBeLessThan(2_000)
  })

  test('without a database leaves the rest to the first start', async () => {
    write('a.gguf')
    const { code, stdout } = await bench.run('models', 'add', 'a.gguf', '--data', 'new')
    expect([code, stdout]).toEqual([0, expect.stringContaining('Start the server')])
    expect(statSync(join(bench.folder, 'new')).mode & 0o777).toBe(0o700)
    expect(existsSync(join(bench.folder, 'new/tollgate.db'))).toBe(false)
    expect((await bench.run('models', 'remove', 'local/a', '--data', 'new')).code).toBe(0)
    expect(existsSync(join(bench.folder, 'new/models.d/a.yaml'))).toBe(false)
  })

  const REFUSED: [words: string[], sentence: string, code: number][] = [
    [['none.gguf'], 'File not found: ', 1],
    [['empty'], 'it has no .gguf files', 1],
    [['lfs.gguf'], 'run `git lfs pull`', 1],
    [['broken.gguf'], 'is truncated', 1],
    [['m-00001-of-00002.gguf'], 'm-00002-of-00002.gguf is missing', 1],
    [['a.gguf', '--mmproj', 'a.gguf'], 'is a model, not a projector', 1],
    [['a.gguf', '--name', 'a b'], '--name must be a model ID', 2],
    [['a.gguf', '--slots', '0'], '--slots', 2],
    [['a.gguf', '--memory', '4'], 'with its unit', 2],
    [['a.gguf', '--name', 'tollgate/taken'], 'Upstream taken already exists', 1],
    [['a.gguf', '--name', 'other/model'], 'Model other/model already exists', 1],
  ]

  test.each(REFUSED)('refuses %p', async (words, sentence, expected) => {
    const facts = 'context_length: 4096, max_output_length: 9, input_modalities: [text], output_modalities: [text]'
    await Bun.write(
      join(bench.folder, 'catalog.yaml'),
      `version: 1\nupstreams: { taken: { dialect: openai, base_url: "http://127.0.0.1:1", local: true } }\nmodels: { other/model: { name: X, ${facts}, supported_features: [], routes: [{ upstream: taken, model: x }] } }\n`,
    )
    expect((await bench.run('catalog', 'apply')).code).toBe(0)
    write('a.gguf')
    write('m-00001-of-00002.gguf', { ...CHAT, 'split.count': 2, 'split.no': 0 })
    mkdirSync(join(bench.folder, 'empty'))
    writeFileSync(join(bench.folder, 'lfs.gguf'), 'version https://git-lfs.github.com/spec/v1\n')
    writeFileSync(join(bench.folder, 'broken.gguf'), makeGguf().subarray(0, 200))
    const { code, stderr } = await bench.run('models', 'add', ...words)
    expect([code, stderr]).toEqual([expected, expect.stringContaining(sentence)])
    expect(existsSync(join(bench.folder, 'models.d'))).toBe(false)
  })

  test('refuses a model that no engine here supports, or that exists already', async () => {
    write('a.gguf')
    bench.environment.PATH = '/nowhere'
    const { code, stderr } = await bench.run('models', 'add', 'a.gguf')
    expect([code, stderr]).toEqual([1, expect.stringContaining('tollgate engines install --from')])
    installLlamaServer(join(bench.folder, 'engines/current'))
    expect((await bench.run('models', 'add', 'a.gguf')).code).toBe(0)
    const again = await bench.run('models', 'add', 'a.gguf')
    expect([again.code, again.stderr]).toEqual([1, expect.stringContaining('Model local/a already exists')])
  })
})

test('models remove deletes its rows and its file, and keeps the model', async () => {
  const path = write('a.gguf')
  await bench.run('models', 'add', path)
  const plan = await bench.run('models', 'remove', 'local/a', '--plan')
  expect([plan.code, plan.stdout]).toEqual([0, expect.stringContaining('- models.local/a')])
  expect(await listed()).toEqual(['local/a'])
  const { code, stdout } = await bench.run('models', 'remove', 'local/a')
  expect([code, stdout]).toEqual([0, expect.stringContaining('Removed local/a')])
  expect([await listed(), existsSync(fileOf('a')), existsSync(path)]).toEqual([[], false, true])
  expect((await bench.run('models', 'remove', 'local/a')).stderr).toContain('Unknown model')
  expect((await bench.run('models', 'add', path)).code).toBe(0)
})
