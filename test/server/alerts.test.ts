/** A server looks for alerts while it has targets, and the next one knows what they were told. */
import { expect, test } from 'bun:test'
import { version } from '../../src/cli/io.ts'
import { toServeConfig } from '../../src/config.ts'
import { createLog } from '../../src/log.ts'
import { startServer } from '../../src/server/server.ts'
import { createBench } from '../cli/run.ts'
import { forEachTest } from '../support/lifetime.ts'
import { until } from '../support/until.ts'

const bench = forEachTest(() => createBench())

test('a new target gets what is wrong now, and others nothing twice, also after a restart', async () => {
  const got: string[] = []
  const receiver = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request) {
      const { text } = (await request.json()) as { text: string }
      got.push(`${new URL(request.url).pathname} ${text}`)
      return new Response()
    },
  })
  const serve = () =>
    startServer({
      ...{ dataFolder: bench.folder, environment: {}, now: Date.now, version: version(), prepare() {} },
      log: createLog({ now: Date.now, write: async () => {} }),
      configure: () => ({
        ...{ ...toServeConfig({ flags: {}, environment: {}, settings: {} }), port: 0, probeMs: 0, backupMs: 3_600_000 },
        publicUrls: ['https://gate.example'],
      }),
      commands: {
        ...{ reload: async () => ({ settings: [], variables: [] }), drain() {} },
        makeBackup: async () => 'The copy is damaged.',
      },
    })
  const add = (name: string) =>
    bench.run('alerts', 'add', `${receiver.url}${name}`, ...['--format', 'slack', '--name', name, '--only', 'backup'])
  const failed = async () => (await bench.run('status', '--json')).stdout.includes('The last scheduled backup failed')

  const isRecorded = async () => {
    const { stdout } = await bench.run('alerts', 'list')
    return !/nothing sent yet|pending/.test(stdout)
  }

  const first = await serve()
  await until('a backup has failed', failed)
  expect((await add('one')).code).toBe(0)
  await until('one is told', isRecorded)
  expect(got.splice(0)).toEqual([
    expect.stringMatching(/^\/one .*backup failed.*https:\/\/gate\.example\/admin\/settings/),
  ])
  await first.stop()

  const second = await serve()
  await until('a backup has failed', failed)
  expect((await add('two')).code).toBe(0)
  await until('two is told', isRecorded)
  expect(got.map((text) => text.split(' ')[0])).toEqual(['/two'])
  await second.stop()
  await receiver.stop(true)
})
