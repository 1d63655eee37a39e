/** The commands that `serve` prints: they work in the folder where it was started, however it was started. */
import { describe, expect, test } from 'bun:test'
import { type Started, toDataOption, toInvocation } from '../../src/cli/serve/welcome.ts'

const BUN = '/opt/bun/bin/bun'
const checkout: Started = {
  execPath: BUN,
  main: '/home/ann/tollgate/src/main.ts',
  cwd: '/home/ann/tollgate',
  environment: {},
  which: (name) => (name === 'bun' ? BUN : null),
}
const binary: Started = { ...checkout, execPath: '/home/ann/bin/tollgate', main: '/$bunfs/root/tollgate' }

describe('the program is called', () => {
  test.each<[how: string, started: Partial<Started>, from: Started, command: string]>([
    ['from a checkout', {}, checkout, 'bun src/main.ts'],
    ['by npx', { environment: { npm_config_user_agent: 'npm/10 node/v22' } }, checkout, 'npx -y bun@1.4.5 src/main.ts'],
    ['by an npx that fetched Bun', { execPath: '/home/ann/.npm/_npx/1/bun' }, checkout, 'npx -y bun@1.4.5 src/main.ts'],
    ['by a Bun off the PATH', { which: () => null }, checkout, '/opt/bun/bin/bun src/main.ts'],
    ['by a script, from elsewhere', { environment: { INIT_CWD: '/home/ann' } }, checkout, 'bun tollgate/src/main.ts'],
    ['by its name', { which: () => '/home/ann/bin/tollgate' }, binary, 'tollgate'],
    ['by its path', {}, binary, '/home/ann/bin/tollgate'],
    ['by its path below', { cwd: '/home/ann' }, binary, 'bin/tollgate'],
    ['beside it', { cwd: '/home/ann/bin' }, binary, './tollgate'],
    ['with a space', { execPath: "/home/ann/it's here/tollgate" }, binary, "'/home/ann/it'\\''s here/tollgate'"],
  ])('%s', (_, started, from, command) => {
    expect(toInvocation({ ...from, ...started })).toBe(command)
  })
})

test('the data folder is named if commands would not find it by default', () => {
  const option = (folder: string, started: Partial<Started> = {}) => toDataOption(folder, { ...checkout, ...started })
  expect(option('/home/ann/tollgate/tollgate_data')).toBe('')
  expect(option('/home/ann/tollgate/other')).toBe(' --data other')
  expect(option('/var/lib/tollgate')).toBe(' --data /var/lib/tollgate')
  // The variable may be set only for that process.
  const environment = { TOLLGATE_DATA: '/home/ann/tollgate/tollgate_data' }
  expect(option('/home/ann/tollgate/tollgate_data', { environment })).toBe(' --data tollgate_data')
})
