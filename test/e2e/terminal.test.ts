/** On a terminal, the log shows only what needs attention, and a link to set up the dashboard. */
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { BINARY, createWorkplace } from '../support/binary.ts'
import { forEachTest } from '../support/lifetime.ts'
import { until } from '../support/until.ts'

const place = forEachTest(createWorkplace)

/** Output of a server that serves one request and is stopped by Ctrl-C. */
async function watch(...options: string[]): Promise<string> {
  const pieces: string[] = []
  const seen = () => pieces.join('')
  const utf8 = new TextDecoder()
  const data = join(place.folder, 'data')
  const child = Bun.spawn([BINARY, 'serve', '--port', '0', '--data', data, ...options], {
    cwd: place.folder,
    env: { PATH: process.env.PATH ?? '' },
    terminal: { data: (_, bytes) => void pieces.push(utf8.decode(bytes, { stream: true })) },
  })
  await until('the banner', () => seen().includes('Try it from'))
  expect((await place.run('ask', 'Hello')).code).toBe(0)
  child.terminal?.write('\u0003')
  expect(await child.exited).toBe(0)
  return seen()
}

test('requests are not logged on a terminal, except with --log-level info', async () => {
  const quiet = await watch()
  expect(quiet).toContain('--log-level info')
  expect(quiet).toContain('Finishing in-flight requests. Press Ctrl-C again to stop now.')
  expect(quiet).not.toContain('"event"')
  expect(await watch('--log-level', 'info')).toContain('"event":"request_finished"')
})

test('without an owner, a terminal shows a link that creates the first one, and no other output does', async () => {
  const seen = await watch('--log-level', 'info')
  const [, code = ''] = /\/admin\/setup#([\w-]+)/.exec(seen) ?? []
  expect(code).not.toBe('')
  expect(seen.split(code).length).toBe(2)
  const piped = await place.serve()
  expect(piped.stdout()).toContain('  dashboard  http://127.0.0.1:')
  expect(piped.stdout() + piped.stderr()).not.toContain('/setup')
  const made = await place.run('admin', 'code')
  const link = `${new URL(piped.baseUrl).origin}/admin/setup#${made.stdout.trim()}`
  expect(made.stderr).toBe(`Open ${link} in a browser within 15 minutes, or enter this code at /admin/setup:\n`)
  piped.signal('SIGTERM')
  await piped.exited
  expect(await watch('--no-dashboard')).not.toContain('/admin')
})
