/** Alert targets from the command line, without a server. */
import { expect, test } from 'bun:test'
import { forEachTest } from '../support/lifetime.ts'
import { createBench } from './run.ts'

const bench = forEachTest(() => createBench())

test('a URL is typed hidden, piped in, or passed, and never shown again; a signing secret is printed on its own line', async () => {
  const url = 'https://hooks.slack.com/services/T0/B0/very-secret'
  bench.answers.push(url)
  const typed = await bench.run('alerts', 'add', '--name', 'chat', '--only', 'budget, upstream')
  expect([typed.code, typed.stdout, bench.asked]).toEqual([0, '', [{ question: expect.any(String), isSecret: true }]])
  bench.piped = 'https://ops.example.com/hook?token=very-secret\n'
  const piped = await bench.run('alerts', 'add', '--url-stdin')
  expect(piped.stdout).toMatch(/^whsec_\S+\n$/)
  const listed = await bench.run('alerts', 'list')
  expect(listed.stdout).toMatch(/chat +https:\/\/hooks\.slack\.com\/… +slack +budget,upstream +nothing sent yet/)
  const removed = await bench.run('alerts', 'remove', 'chat')
  expect(removed.stdout).toMatch(/^Removed alert target [0-9a-f]{8} \(chat\)\.\n$/)
  const gone = await bench.run('alerts', 'remove', url)
  expect([gone.code, gone.stderr]).toEqual([1, expect.stringContaining("no alert target 'https://hooks.slack.com'")])
  for (const { stdout, stderr } of [typed, piped, listed, removed, gone])
    expect(stdout + stderr).not.toContain('very-secret')
})

test('a test exits with 1 if a target was not reached, and the log has the reason', async () => {
  const receiver = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response() })
  await bench.run('alerts', 'add', receiver.url.href, '--name', 'ops', '--format', 'slack')
  expect(await bench.run('alerts', 'test')).toMatchObject({ code: 0, stdout: 'ops: delivered\n' })
  await receiver.stop(true)
  const failed = await bench.run('alerts', 'test', 'ops')
  expect([failed.code, failed.stdout]).toEqual([1, 'ops: connection refused\n'])
  expect((await bench.run('alerts', 'log')).stdout).toMatch(
    /ops +failed +1 +test \(connection refused\)\n.*ops +delivered +1 +test\n$/,
  )
})

test.each([
  [['--only', 'weather'], '--only takes topics separated by commas'],
  [['--format', 'xml'], '--format must be slack or json'],
])('%p is wrong usage', async (flags, says) => {
  const { code, stderr } = await bench.run('alerts', 'add', 'https://example.com/x', ...flags)
  expect([code, stderr]).toEqual([2, expect.stringContaining(says)])
})
