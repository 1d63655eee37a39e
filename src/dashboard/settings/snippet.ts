/** How a token is used, ready to be copied. It was run as it stands. Pure. */

/** @param origin such as `https://gateway.example.com` */
export const toCurl = (origin: string, token: string): string =>
  [`curl ${origin}/admin/api/keys \\`, `  -H 'Authorization: Bearer ${token}'`].join('\n')
