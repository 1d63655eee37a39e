/** From a model file to a streamed word, with the built executable and a llama-server on its PATH. */
import { beforeEach, expect, test } from 'bun:test'
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { makeTarGz } from '../support/archives.ts'
import { createWorkplace, type RunningBinary, runBinary } from '../support/binary.ts'
import { makeGguf } from '../support/gguf.ts'
import { forEachTest } from '../support/lifetime.ts'
import { installLlamaServer } from '../support/llama-server.ts'
import { makeTinyModel } from '../support/tiny-model.ts'

let environment: Record<string, string>
const place = forEachTest(createWorkplace)
beforeEach(() => {
  const bin = join(place.folder, 'bin')
  installLlamaServer(bin)
  environment = { PATH: `${bin}:${process.env.PATH}` }
  writeFileSync(join(place.folder, 'tiny.gguf'), makeGguf())
})

const serve = (args: string[] = []) => place.serve(['--first-key', ...args], { environment })
const runWith = (...args: string[]) =>
  runBinary([...args, '--data', join(place.folder, 'data')], { cwd: place.folder, environment })

const chat = async ({ baseUrl, key }: RunningBinary, model: string) => {
  const answer = await fetch(`${baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, stream: true, max_tokens: 4, messages: [{ role: 'user', content: 'Hello' }] }),
  })
  return { status: answer.status, text: await answer.text() }
}

test('serve FILE turns an empty folder into a working server: the line that it prints streams a response', async () => {
  const server = await serve(['tiny.gguf'])
  expect(server.stdout()).toContain('Tiny Chat: llama, Q4_K_M')
  expect(server.stdout()).toContain('ask --model local/tiny Hello')
  const line = server.stdout().match(/^curl .+$/m)?.[0] ?? ''
  expect(line).toContain('"model":"local/tiny"')
  if (Bun.which('curl') !== null) {
    const curl = Bun.spawn(['sh', '-c', line], { stdout: 'pipe', stderr: 'ignore' })
    const text = await curl.stdout.text()
    expect(text).toContain('local/tiny')
    expect(text).toEndWith('data: [DONE]\n\n')
  } else expect((await chat(server, 'local/tiny')).status).toBe(200)
  server.signal('SIGTERM')
  expect(await server.exited).toBe(0)

  const again = await serve(['tiny.gguf'])
  expect(again.stdout()).not.toContain('Tiny Chat: llama')
  expect(again.stdout()).toContain('"model":"local/tiny"')
  writeFileSync(join(place.folder, 'other.gguf'), makeGguf())
  expect(await runWith('serve', 'other.gguf')).toMatchObject({
    ...{ code: 1, stderr: expect.stringContaining('Add the model to it: tollgate models add other.gguf') },
  })
  expect(readdirSync(join(place.folder, 'data/models.d'))).toEqual(['tiny.yaml'])
})

test('serve FILE works with an engine that was installed from an archive, and none on the PATH', async () => {
  const content = await Bun.file(join(place.folder, 'bin/llama-server')).text()
  const archive = makeTarGz([{ name: 'build/bin/llama-server', content, mode: 0o755 }])
  writeFileSync(join(place.folder, 'engine.tar.gz'), archive)
  const sha256 = new Bun.CryptoHasher('sha256').update(archive).digest('hex')
  environment = { PATH: process.env.PATH ?? '' }
  const installed = await runWith('engines', 'install', '--from', 'engine.tar.gz', '--sha256', sha256)
  expect(installed).toMatchObject({ code: 0, stdout: expect.stringContaining('llama-server 9999') })
  const server = await serve(['tiny.gguf'])
  expect(await chat(server, 'local/tiny')).toEqual({ status: 200, text: expect.stringContaining('data: [DONE]') })
})

const REAL = Bun.which('llama-server')
if (REAL === null) console.warn('There is no llama-server on the PATH: what it does itself is left out.')

test.skipIf(REAL === null)(
  'a llama-server itself takes the command, knows its key, and says what the catalogue does',
  async () => {
    writeFileSync(join(place.folder, 'trial.gguf'), makeTinyModel())
    environment = { PATH: process.env.PATH ?? '' }
    const server = await serve(['trial.gguf'])
    const { status, text } = await chat(server, 'local/trial')
    expect([status, text.slice(-14)]).toEqual([200, 'data: [DONE]\n\n'])
    const words = Bun.spawnSync(['ps', '-eo', 'args=']).stdout.toString().split('\n')
    const port = /--port (\d+)/.exec(words.find((line) => line.includes(join(place.folder, 'trial.gguf'))) ?? '')?.[1]
    expect((await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, { method: 'POST', body: '{}' })).status).toBe(
      401,
    )
    // 512 tokens per request, the model's training context: two slots share twice as many.
    expect((await runWith('upstreams', 'logs', 'trial', '--lines', '1000')).stdout).toContain('n_ctx_slot = 512')
  },
)

test('serve FILE without an engine, or with a file that is no model, starts nothing', async () => {
  const bare = { cwd: place.folder, environment: { PATH: '/nowhere' } }
  expect(await runBinary(['serve', 'tiny.gguf'], bare)).toMatchObject({
    ...{ code: 1, stderr: expect.stringContaining('is not installed. Put it on the PATH') },
  })
  expect(await runBinary(['serve', 'none.gguf'], bare)).toMatchObject({
    ...{ code: 1, stderr: expect.stringContaining('File not found: ') },
  })
  expect(readdirSync(place.folder)).not.toContain('tollgate_data')
})

test('models are added next to a running server, and removed from it', async () => {
  const server = await serve()
  const added = await runWith('models', 'add', 'tiny.gguf', '--name', 'small')
  expect(added).toMatchObject({ code: 0, stdout: expect.stringContaining('It loads on the first request') })
  // A server looks for changes forty times a second.
  let answer = await chat(server, 'local/small')
  for (let tries = 0; answer.status === 404 && tries < 100; tries++) {
    await Bun.sleep(20)
    answer = await chat(server, 'local/small')
  }
  expect(answer).toEqual({ status: 200, text: expect.stringContaining('data: [DONE]') })
  expect(await runWith('models', 'remove', 'local/small')).toMatchObject({ code: 0 })
  for (let tries = 0; answer.status !== 404 && tries < 100; tries++) {
    await Bun.sleep(20)
    answer = await chat(server, 'local/small')
  }
  expect(answer.status).toBe(404)
})
