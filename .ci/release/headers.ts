/** What an executable runs on, by its headers. */

export interface Executable {
  os: 'linux' | 'darwin' | 'windows'
  arch: 'x64' | 'arm64'
  /** Path of the dynamic loader; '' if it names none. */
  loader: string
}

type Machines = ReadonlyMap<number, Executable['arch']>
/** `e_machine`. */
const ELF: Machines = new Map([
  [62, 'x64'],
  [183, 'arm64'],
])
/** `cputype`. */
const MACH_O: Machines = new Map([
  [0x01000007, 'x64'],
  [0x0100000c, 'arm64'],
])
/** `Machine`. */
const PE: Machines = new Map([
  [0x8664, 'x64'],
  [0xaa64, 'arm64'],
])

/** Null if it is no 64-bit executable of these systems. */
export function readExecutable(bytes: Buffer): Executable | null {
  if (bytes.length < 64) return null
  if (bytes.readUInt32BE(0) === 0x7f454c46 && bytes[4] === 2) {
    const arch = ELF.get(bytes.readUInt16LE(18))
    return arch ? { os: 'linux', arch, loader: readLoader(bytes) } : null
  }
  if (bytes.readUInt32LE(0) === 0xfeedfacf) {
    const arch = MACH_O.get(bytes.readUInt32LE(4))
    return arch ? { os: 'darwin', arch, loader: '' } : null
  }
  if (bytes.toString('latin1', 0, 2) !== 'MZ') return null
  const at = bytes.readUInt32LE(60)
  if (at + 6 > bytes.length || bytes.toString('latin1', at, at + 4) !== 'PE\0\0') return null
  const arch = PE.get(bytes.readUInt16LE(at + 4))
  return arch ? { os: 'windows', arch, loader: '' } : null
}

/** PT_INTERP. */
function readLoader(bytes: Buffer): string {
  const [start, size, count] = [Number(bytes.readBigUInt64LE(32)), bytes.readUInt16LE(54), bytes.readUInt16LE(56)]
  for (let at = start; at < start + size * count && at + 40 <= bytes.length; at += size)
    if (bytes.readUInt32LE(at) === 3) {
      const from = Number(bytes.readBigUInt64LE(at + 8))
      return bytes.toString('latin1', from, from + Number(bytes.readBigUInt64LE(at + 32))).replace(/\0.*/s, '')
    }
  return ''
}
