/** The pages as they were when the executable was built. A server that runs from source does not load this. */
import { bundled } from './pages-bundle.ts' with { type: 'macro' }

export const files = bundled()
