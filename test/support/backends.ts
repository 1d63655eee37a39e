/** One backend for every API format. */
import { DIALECTS, type DialectName } from '../../src/domain/dialects.ts'

export const onEvery = <Backend>(backend: Backend): Record<DialectName, Backend> =>
  Object.fromEntries(DIALECTS.map((name) => [name, backend])) as Record<DialectName, Backend>
