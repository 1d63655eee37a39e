/** Self-signed certificates, by OpenSSL. */
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface PemPair {
  cert: string
  key: string
}

export function makeCertificate(names: string, days = 90): PemPair {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-certificate-'))
  const [keyFile, certFile] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
  const { exitCode, stderr } = Bun.spawnSync([
    ...['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'],
    ...['-keyout', keyFile, '-out', certFile, '-days', String(days), '-subj', '/CN=test'],
    ...['-addext', `subjectAltName=${names}`],
  ])
  if (exitCode !== 0) throw new Error(stderr.toString())
  return { cert: readFileSync(certFile, 'utf8'), key: readFileSync(keyFile, 'utf8') }
}

/** The files of a pair, which can be overwritten. */
export function putPair(pair: PemPair) {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-tls-'))
  const files = { certFile: join(folder, 'fullchain.pem'), keyFile: join(folder, 'privkey.pem') }
  const write = ({ cert, key }: PemPair) => {
    writeFileSync(files.certFile, cert)
    writeFileSync(files.keyFile, key)
  }
  write(pair)
  return { ...files, write }
}
