/** The dashboard as bundled into the executable; not loaded when run from source. */
import { bundled } from './pages-bundle.ts' with { type: 'macro' }

export const files = bundled()
