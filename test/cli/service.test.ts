/** `tollgate service`: the unit, an install as root, and the server's messages to systemd. */

import { dlopen, ptr } from 'bun:ffi'
import { afterAll, expect, test } from 'bun:test'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Command } from 'commander'
import { addService, type Machine } from '../../src/cli/service/service.ts'
import { toPropertyList, toUnit } from '../../src/cli/service/unit.ts'
import { connectSupervisor } from '../../src/server/supervisor.ts'
import { until } from '../support/until.ts'

const folder = mkdtempSync(join(tmpdir(), 'tollgate-service-'))
afterAll(() => rmSync(folder, { recursive: true }))

const OPTIONS = {
  ...{
    program: '/usr/bin/true',
    user: 'daemon',
    dataFolder: '/var/lib/tollgate',
    environmentFile: '/etc/tollgate.env',
  },
  ...{ flags: ['--port', '443'], hasDevices: false },
}

const analyze = Bun.which('systemd-analyze')
test.skipIf(analyze === null)(
  `systemd accepts the unit, and rates its exposure below 3.0${analyze ? '' : ' (skipped: no systemd-analyze)'}`,
  () => {
    for (const hasDevices of [false, true]) {
      const path = join(folder, 'tollgate.service')
      writeFileSync(path, toUnit({ ...OPTIONS, hasDevices, flags: ['--cors-origin', 'a b%h$X"\\'] }))
      const verified = Bun.spawnSync(['systemd-analyze', 'verify', path])
      expect(verified.stderr.toString()).toBe('')
      const rated = Bun.spawnSync([
        'systemd-analyze',
        'security',
        '--offline=true',
        '--threshold=30',
        '--no-pager',
        path,
      ])
      expect(rated.stdout.toString()).toMatch(/Overall exposure level for tollgate\.service: [0-2]\.\d/)
      expect(rated.exitCode).toBe(0)
    }
  },
)

/** Commands of a service's install, which are only recorded. */
const commands = join(folder, 'bin')
const ran = join(folder, 'ran')
mkdirSync(commands)
for (const name of ['systemctl', 'journalctl', 'useradd', 'id']) {
  const path = join(commands, name)
  writeFileSync(path, `#!/bin/sh\necho ${name} "$@" >> ${ran}\nexit ${name === 'id' ? 1 : '$STATUS'}\n`)
  chmodSync(path, 0o755)
}
const root = join(folder, 'root')
const executable = join(folder, 'tollgate')
writeFileSync(executable, 'binary')

async function service(words: string[], machine: Partial<Machine> = {}, environment: Record<string, string> = {}) {
  let out = ''
  const note = (text: string) => {
    out += text
  }
  const all = { PATH: commands, ...environment }
  const io = {
    environment: all,
    json: false,
    stdout: note,
    stderr: note,
    run: (command: string, args: string[]) =>
      Bun.spawn([join(commands, command), ...args], { env: { ...all, PATH: '/bin:/usr/bin' } }).exited,
  }
  const group = new Command('service').exitOverride()
  addService(group, io as never, { platform: 'linux', isRoot: true, executable, root, ...machine })
  rmSync(ran, { force: true })
  await group.parseAsync(words, { from: 'user' })
  return { out, ran: existsSync(ran) ? readFileSync(ran, 'utf8').trim().split('\n') : [] }
}

const UNIT = join(root, 'etc/systemd/system/tollgate.service')

test('an install copies the binary, creates the user, and starts the unit; an uninstall keeps the data', async () => {
  const installed = await service(['install', '--', '--port', '443', '--tls-domain', 'gate.example.com'])
  expect(installed.ran).toEqual([
    'id -u tollgate',
    expect.stringMatching(/^useradd --system .* tollgate$/),
    'systemctl daemon-reload',
    'systemctl enable tollgate',
    'systemctl restart tollgate',
  ])
  expect(readFileSync(UNIT, 'utf8')).toContain(
    'ExecStart=/usr/local/bin/tollgate serve --data /var/lib/tollgate --port 443 --tls-domain gate.example.com\n',
  )
  expect(statSync(join(root, 'usr/local/bin/tollgate')).mode & 0o777).toBe(0o755)
  const environment = join(root, 'etc/tollgate.env')
  expect(statSync(environment).mode & 0o777).toBe(0o600)
  writeFileSync(environment, 'OPENAI_API_KEY=mine\n')
  await service(['install', '--gpu'])
  expect(readFileSync(environment, 'utf8')).toBe('OPENAI_API_KEY=mine\n')
  expect(readFileSync(UNIT, 'utf8')).toContain('PrivateDevices=no')

  expect((await service(['uninstall'])).ran).toEqual(['systemctl disable --now tollgate', 'systemctl daemon-reload'])
  expect(existsSync(UNIT)).toBe(false)
  expect(existsSync(environment)).toBe(true)
})

test.each<[what: string, words: string[], machine: Partial<Machine>, says: RegExp]>([
  ['by another user than root', ['install'], { isRoot: false }, /Only root/],
  ['of a checkout', ['install'], { executable: null }, /Build it/],
  ['elsewhere', ['install'], { platform: 'win32' }, /no systemd/],
  ['of no service', ['uninstall'], {}, /no service/],
  ['with a line break', ['install', '--', 'a\nExecStartPre=/bin/evil'], {}, /line breaks/],
  ['with another data folder', ['install', '--', '--data=/x'], {}, /data folder is/],
  ['for a strange user', ['install', '--user', 'a b'], {}, /system user's name/],
])('a change %s is refused', async (_, words, machine, says) => {
  await expect(service(words, machine)).rejects.toThrow(says)
  expect(existsSync(ran)).toBe(false)
  expect(existsSync(UNIT)).toBe(false)
})

test("another's unit is not overwritten", async () => {
  writeFileSync(UNIT, '[Service]\n')
  await expect(service(['install'])).rejects.toThrow(/Move it away/)
  await expect(service(['uninstall'])).rejects.toThrow(/Move it away/)
  rmSync(UNIT)
})

test("a dry run, and macOS, only print the service manager's files", async () => {
  const { out, ran } = await service(['install', '--dry-run', '--', '--cors-origin', 'a b%h$X"'], { isRoot: false })
  expect(out).toContain('--cors-origin "a b%%h$$X\\""\n')
  const mac = await service(['install', '--', '--cors-origin', '<&>'], { platform: 'darwin' })
  expect(mac.out).toContain('    <string>&lt;&amp;&gt;</string>\n')
  expect(mac.out).toContain(
    toPropertyList({
      ...OPTIONS,
      program: '/usr/local/bin/tollgate',
      dataFolder: '/usr/local/var/tollgate',
      flags: ['--cors-origin', '<&>'],
    }),
  )
  expect([...ran, ...mac.ran]).toEqual([])
})

test('status and logs come from systemd', async () => {
  await expect(service(['status'], {}, { STATUS: '3' })).rejects.toMatchObject({ exitCode: 3 })
  expect((await service(['logs', '-f', '-n', '5'])).ran).toEqual([
    'journalctl --no-pager --output=cat --unit=tollgate --lines=5 --follow',
  ])
})

test.skipIf(process.platform !== 'linux')('the server reports that it is ready, alive, and stopping', async () => {
  const path = join(folder, 'notify')
  const { symbols } = dlopen('libc.so.6', {
    socket: { args: ['i32', 'i32', 'i32'], returns: 'i32' },
    bind: { args: ['i32', 'ptr', 'u32'], returns: 'i32' },
    recv: { args: ['i32', 'ptr', 'u64', 'i32'], returns: 'i64' },
  })
  const file = symbols.socket(1, 2, 0)
  const address = Buffer.concat([Buffer.of(1, 0), Buffer.from(path), Buffer.of(0)])
  expect(symbols.bind(file, ptr(address), address.length)).toBe(0)
  const received: string[] = []
  const buffer = Buffer.alloc(100)
  const hasReceived = (text: string) => () => {
    const bytes = Number(symbols.recv(file, ptr(buffer), buffer.length, 0x40))
    if (bytes > 0) received.push(buffer.toString('utf8', 0, bytes))
    return received.includes(text)
  }
  const supervisor = await connectSupervisor({ NOTIFY_SOCKET: path, WATCHDOG_USEC: '20000' })
  supervisor?.ready()
  await until('readiness', hasReceived('READY=1'))
  await until('a sign of life', hasReceived('WATCHDOG=1'))
  supervisor?.stopping()
  await until('the stop', hasReceived('STOPPING=1'))
  expect(await connectSupervisor({})).toBeNull()
  expect(await connectSupervisor({ NOTIFY_SOCKET: '/nowhere' })).not.toBeNull()
})
