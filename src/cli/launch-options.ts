/** How what is said of the key that `launch` makes is typed. */
import { toBudgetOption } from './shared-options.ts'

export const BUDGET = toBudgetOption('what the key that is made for it may cost')
